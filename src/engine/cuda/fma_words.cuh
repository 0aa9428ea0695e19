// What the fma kernels do with bf16 words: widening, nodes packed two a word, and copies to shared memory
// that do not wait.
#pragma once

#include <cstdint>

#include "numerics/bf16.hpp"

namespace samebits::engine::cuda::fma_leaf {

// The two elements of a word, lower half first.
__device__ inline float low_of(std::uint32_t word) { return __uint_as_float(word << 16); }
__device__ inline float high_of(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); }

// Nearest even, subnormals kept; a NaN stays one, of another pattern than the stored kind.
__device__ inline std::uint32_t round_two(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// node(lower + upper), twice. One rounding to bf16 gives what f32 and then bf16 give: the sum of two bf16 is
// rounded to 24 bits first, and 24 >= 2 * 8 + 2; below the normal range both are exact.
// tests/hardware/fma_check compares all 2^32 pairs.
__device__ inline std::uint32_t add_two(std::uint32_t lower, std::uint32_t upper) {
  std::uint32_t word;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(lower), "r"(upper));
  return word;
}

// The bits of x in a register of their own: the compiler would else keep a node where its accumulator was,
// and pay for it with moves among the chains.
__device__ inline std::uint32_t bits_apart(float x) {
  std::uint32_t word;
  asm volatile("mov.b32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

// Two bf16 as they are stored: NaNs canonical.
__device__ inline std::uint32_t canonical_two(std::uint32_t word) {
  if ((word & 0x7FFFu) > 0x7F80u) word = (word & 0xFFFF0000u) | numerics::kNanBf16;
  if ((word & 0x7FFF0000u) > 0x7F800000u) word = (word & 0xFFFFu) | std::uint32_t{numerics::kNanBf16} << 16;
  return word;
}

// Eight bytes of shared memory, never joined with a neighbour to one read of sixteen: what is read for later
// then lands in the registers that the reader has just freed.
__device__ inline uint2 read_two(const void* from) {
  uint2 words;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(words.x), "=r"(words.y)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(from))));
  return words;
}

// 16 bytes to shared memory without waiting, the first `bytes` of them read and the rest +0.
__device__ inline void copy_16(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ inline void wait_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

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

}  // namespace samebits::engine::cuda::fma_leaf
