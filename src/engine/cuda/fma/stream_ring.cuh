// The ring of the stream kernels: chunks of the weights and of x in shared memory, brought by the copy
// engine, and the x of a chunk widened.
#pragma once

#include "engine/cuda/fma/stream.hpp"
#include "engine/cuda/fma/words.cuh"
#include "engine/cuda/hopper.cuh"

namespace samebits::engine::cuda::fma_leaf {

using numerics::Bf16;

// A stage: the tile's weights, then x as [x_tokens][64 k]. Swizzled lines repeat every 1024 bytes.
//   by rows:    [tile][64 k], swizzled
//   by columns: [64 k][tile]
__host__ __device__ constexpr int stream_weight_bytes(int tile) { return tile * kStreamChunk * 2; }
__host__ __device__ constexpr int stream_x_bytes(int x_tokens) { return x_tokens * kStreamChunk * 2; }
__host__ __device__ constexpr int stream_stage_bytes(int tile, int x_tokens) {
  return stream_weight_bytes(tile) + (stream_x_bytes(x_tokens) + 1023) / 1024 * 1024;
}

// Barriers by their addresses, which the loops below keep.
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// For both: asked together, they are waited for once.
__device__ inline void barrier_wait(std::uint32_t first, std::uint32_t first_parity, std::uint32_t second,
                                    std::uint32_t second_parity) {
  asm volatile(
      "{\n.reg .pred one, other;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 one, [%0], %1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 other, [%2], %3;\n"
      "and.pred one, one, other;\n"
      "@!one bra WAIT;\n}" ::"r"(first),
      "r"(first_parity), "r"(second), "r"(second_parity)
      : "memory");
}

// A copy of up to 256 lines or columns.
inline constexpr int kMostBox = 256;

// x of a stage as f32, [64 k][pitch]: all rows of a tile read it, so it is widened once. A fixed pitch makes
// every address of a group of k a constant from one base.
__host__ __device__ constexpr int stream_x_pitch(int thread_tokens) {
  return thread_tokens == 1 ? 1 : kStreamTokens;
}

template <int kPitch>
struct Widening {
  int thread, threads;  // of those that widen
  int quads, units;     // a unit is 4 k of 4 tokens
  int token, k;         // of this thread's first unit

  __device__ Widening(int thread_, int threads_, int x_tokens)
      : thread(thread_), threads(threads_), quads(x_tokens >> 2), units(quads * (kStreamChunk / 4)) {
    set(thread);
  }
  __device__ void set(int unit) {
    if constexpr (kPitch == 1) return;
    token = unit % quads * 4;
    k = unit / quads * 4;
  }
  __device__ void run(const unsigned char* stage, float* to) {
    if constexpr (kPitch == 1) {  // line 0 is not moved by the swizzle
      for (int i = thread; i < kStreamChunk; i += threads) {
        to[i] = numerics::widen(reinterpret_cast<const Bf16*>(stage)[i]);
      }
    } else {
      for (int unit = thread; unit < units; unit += threads) {
        if (unit != thread) set(unit);
        uint2 v[4];
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          const int line = token + t;
          v[t] = *reinterpret_cast<const uint2*>(stage + line * kStreamChunk * 2 +
                                                 ((k >> 3 ^ (line & 7)) << 4) + (k & 4) * 2);
        }
        float* const at = to + k * kPitch + token;
        *reinterpret_cast<float4*>(at) = {low_of(v[0].x), low_of(v[1].x), low_of(v[2].x), low_of(v[3].x)};
        *reinterpret_cast<float4*>(at + kPitch) = {high_of(v[0].x), high_of(v[1].x), high_of(v[2].x),
                                                   high_of(v[3].x)};
        *reinterpret_cast<float4*>(at + 2 * kPitch) = {low_of(v[0].y), low_of(v[1].y), low_of(v[2].y),
                                                       low_of(v[3].y)};
        *reinterpret_cast<float4*>(at + 3 * kPitch) = {high_of(v[0].y), high_of(v[1].y), high_of(v[2].y),
                                                       high_of(v[3].y)};
      }
      if (units > threads) set(thread);
    }
  }
};

}  // namespace samebits::engine::cuda::fma_leaf
