// What a thread does with a finished leaf, whatever made it: merges with the pending nodes, rounding to node
// type, and the store of a node. Values are a thread's own share of a tile, in registers.
#pragma once

#include <cstdint>

#include "engine/cuda/node.hpp"
#include "numerics/bf16.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// bf16 of two floats in one word, `low` in the lower half; NaN is the canonical one.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  return std::uint32_t{numerics::round_bf16(low)} | std::uint32_t{numerics::round_bf16(high)} << 16;
}

// A thread's pending nodes: `Count` values a level, levels `level_stride` apart, values `stride` apart.
template <int Count>
struct PendingStack {
  float* data;
  std::int64_t level_stride;
  int stride;
  int height = 0;

  __device__ void push(const float (&value)[Count]) {
    float* const to = data + height++ * level_stride;
#pragma unroll
    for (int i = 0; i < Count; ++i) to[i * stride] = value[i];
  }
  // value = node(pending + value), for each of `merges` pending nodes.
  __device__ void merge(int merges, bool bf16_nodes, float (&value)[Count]) {
    for (; merges > 0; --merges) {
      const float* const from = data + --height * level_stride;
#pragma unroll
      for (int i = 0; i < Count; ++i) value[i] = as_node(bf16_nodes, from[i * stride] + value[i]);
    }
  }
};

}  // namespace samebits::engine::SAMEBITS_GPU
