// The ring of the stream kernels: chunks of the weights and of x on their way to shared memory, and the x of
// a chunk widened.
#pragma once

#include "engine/cuda/fma_stream.hpp"
#include "engine/cuda/fma_words.cuh"
#include "engine/cuda/hopper.cuh"

namespace samebits::engine::cuda::fma_leaf {

using numerics::Bf16;

inline constexpr int kStreamXPitch = kStreamChunk * 2 + 16;  // bytes of a token of a stage

struct StreamSource {
  const Bf16* weight[2];
  const Bf16* x[2];
  std::int64_t weight_stride, x_stride;  // between rows of the matrices
  int outer;
  int tokens;
};

// Bytes of a stage: the tile's weights, then x. `x_tokens` is a multiple of 4, or 1.
__host__ __device__ constexpr int stream_weight_bytes(int tile) { return tile * kStreamChunk * 2; }
__host__ __device__ constexpr int stream_stage_bytes(int tile, int x_tokens) {
  return stream_weight_bytes(tile) + (x_tokens * kStreamXPitch + 127) / 128 * 128;
}

// How many bytes of the 16 at element `at` lie below `end`.
__device__ inline int bytes_below(int at, int end) { return min(max((end - at) * 2, 0), 16); }

// Rows of 64 k: piece p of row r lies at piece p ^ (r & 7), so that 8 rows are read without conflict.
// [first, first + rows) are rows of the tile; `row0` is the outer index of the first.
__device__ inline void load_weight_rows(std::uint32_t to, const Bf16* weight, std::int64_t stride, int first,
                                        int rows, int row0, int outer, int k0, int k_end) {
  const int piece = static_cast<int>(threadIdx.x) & 7, lane = static_cast<int>(threadIdx.x) >> 3;
  const int step = static_cast<int>(blockDim.x) >> 3;
  const int at = k0 + piece * 8, bytes = bytes_below(at, k_end);
  if (bytes == 0) return;
  const int count = min(rows, outer - row0);
  const Bf16* from = weight + (row0 + lane) * stride + at;
  for (int row = lane; row < count; row += step, from += step * stride) {
    const int r = first + row;
    copy_16(to + static_cast<std::uint32_t>(r * kStreamChunk * 2 + ((piece ^ (r & 7)) << 4)), from, bytes);
  }
}

// 64 rows of k of the tile's columns, one behind the other.
__device__ inline void load_weight_columns(std::uint32_t to, const Bf16* weight, std::int64_t stride,
                                           int tile, int col0, int outer, int k0, int k_end) {
  const int pieces = tile >> 3, step = static_cast<int>(blockDim.x) / pieces;
  const int piece = static_cast<int>(threadIdx.x) % pieces, lane = static_cast<int>(threadIdx.x) / pieces;
  const int at = col0 + piece * 8, bytes = bytes_below(at, outer);
  if (bytes == 0 || lane >= step) return;
  const int count = min(kStreamChunk, k_end - k0);
  const Bf16* from = weight + (k0 + lane) * stride + at;
  for (int k = lane; k < count; k += step, from += step * stride) {
    copy_16(to + static_cast<std::uint32_t>(k * tile * 2 + piece * 16), from, bytes);
  }
}

__device__ inline void load_x(std::uint32_t to, const Bf16* x, std::int64_t stride, int tokens, int k0,
                              int k_end) {
  for (int i = static_cast<int>(threadIdx.x); i < tokens * 8; i += static_cast<int>(blockDim.x)) {
    const int token = i >> 3, at = k0 + (i & 7) * 8, bytes = bytes_below(at, k_end);
    if (bytes > 0) {
      copy_16(to + static_cast<std::uint32_t>(token * kStreamXPitch + (i & 7) * 16), x + token * stride + at,
              bytes);
    }
  }
}

// x of a stage as f32, [64 k][pitch]: all rows of a tile read it, so it is widened once. A fixed pitch makes
// every address of a group of k a constant from one base.
constexpr int stream_x_pitch(int thread_tokens) { return thread_tokens == 1 ? 1 : kStreamTokens; }

__device__ inline void widen_x(const unsigned char* stage, float* to, int pitch, int x_tokens) {
  if (x_tokens == 1) {
    for (int k = static_cast<int>(threadIdx.x); k < kStreamChunk; k += static_cast<int>(blockDim.x)) {
      to[k] = numerics::widen(reinterpret_cast<const Bf16*>(stage)[k]);
    }
    return;
  }
  const int quads = x_tokens >> 2;
  for (int i = static_cast<int>(threadIdx.x); i < quads * (kStreamChunk / 4);
       i += static_cast<int>(blockDim.x)) {
    const int token = i % quads * 4, k = i / quads * 4;
    uint2 v[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      v[t] = *reinterpret_cast<const uint2*>(stage + (token + t) * kStreamXPitch + k * 2);
    }
    float* const at = to + k * pitch + token;
    *reinterpret_cast<float4*>(at) = {low_of(v[0].x), low_of(v[1].x), low_of(v[2].x), low_of(v[3].x)};
    *reinterpret_cast<float4*>(at + pitch) = {high_of(v[0].x), high_of(v[1].x), high_of(v[2].x),
                                              high_of(v[3].x)};
    *reinterpret_cast<float4*>(at + 2 * pitch) = {low_of(v[0].y), low_of(v[1].y), low_of(v[2].y),
                                                  low_of(v[3].y)};
    *reinterpret_cast<float4*>(at + 3 * pitch) = {high_of(v[0].y), high_of(v[1].y), high_of(v[2].y),
                                                  high_of(v[3].y)};
  }
}

}  // namespace samebits::engine::cuda::fma_leaf
