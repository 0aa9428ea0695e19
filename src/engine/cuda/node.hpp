// Rounding to node type, and the store of a node.
#pragma once

#include "engine/cuda/operands.hpp"
#include "numerics/bf16.hpp"
#include "numerics/hd.hpp"

namespace samebits::engine::SAMEBITS_GPU {

SAMEBITS_HD inline float as_node(bool bf16_nodes, float value) {
  return bf16_nodes ? numerics::rounded_bf16(value) : value;
}

SAMEBITS_HD inline void store_node(const Target& target, std::int64_t at, float value) {
  if (target.f32) {
    static_cast<float*>(target.data)[at] = numerics::canonical_f32(value);
  } else {
    static_cast<std::uint16_t*>(target.data)[at] = numerics::round_bf16(value);
  }
}

}  // namespace samebits::engine::SAMEBITS_GPU
