// What the fma kernels do with bf16 words: widening, and nodes packed two a word.
#pragma once

#include <cstdint>

#include "engine/cuda/namespace.hpp"
#if defined(SAMEBITS_ROCM)
#include "engine/hip/fma_instructions.hpp"
#else
#include "engine/cuda/fma/instructions.cuh"
#endif
#include "numerics/bf16.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

__device__ inline float high_of(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); }

// Two bf16 as they are stored: NaNs canonical.
__device__ inline std::uint32_t canonical_two(std::uint32_t word) {
  if ((word & 0x7FFFu) > 0x7F80u) word = (word & 0xFFFF0000u) | numerics::kNanBf16;
  if ((word & 0x7FFF0000u) > 0x7F800000u) word = (word & 0xFFFFu) | std::uint32_t{numerics::kNanBf16} << 16;
  return word;
}

// Nodes of `kCount` results of a thread.
template <int kCount, bool kBf16>
struct NodeShare {
  static constexpr int kWords = kBf16 ? (kCount + 1) / 2 : kCount;
  std::uint32_t word[kWords];

  // `kApart`: in other registers than the accumulators', where there are enough.
  template <bool kApart>
  __device__ void take(const float (&acc)[kCount]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kBf16) {
        word[i] = round_two(acc[2 * i], 2 * i + 1 < kCount ? acc[2 * i + 1] : 0.0f);
      } else if constexpr (kApart) {
        word[i] = bits_apart(acc[i]);
      } else {
        word[i] = __float_as_uint(acc[i]);
      }
    }
  }
  __device__ void add(const NodeShare& pending) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) add_word(i, pending.word[i]);
  }
  __device__ void add_word(int i, std::uint32_t pending) {
    if constexpr (kBf16) {
      word[i] = add_two(pending, word[i]);
    } else {
      word[i] = __float_as_uint(__uint_as_float(pending) + __uint_as_float(word[i]));
    }
  }
  __device__ float value(int i) const {
    if constexpr (kBf16) return i % 2 == 0 ? low_of(word[i / 2]) : high_of(word[i / 2]);
    return __uint_as_float(word[kBf16 ? 0 : i]);
  }
};

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
