// bfloat16 as its bit pattern, and the two roundings that the contract knows: bf16(x) and f32(x).
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/hd.hpp"

namespace samebits::numerics {

using Bf16 = std::uint16_t;

inline constexpr Bf16 kNanBf16 = 0x7FC0;
inline constexpr std::uint32_t kNanF32 = 0x7FC00000u;

SAMEBITS_HD constexpr std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
SAMEBITS_HD constexpr float from_bits(std::uint32_t x) { return std::bit_cast<float>(x); }
SAMEBITS_HD constexpr float widen(Bf16 x) { return from_bits(std::uint32_t{x} << 16); }
SAMEBITS_HD constexpr bool is_nan_bits(std::uint32_t x) { return (x & 0x7FFFFFFFu) > 0x7F800000u; }

#if defined(__CUDACC__)
// bf16(x) in the upper half, which is its value as a float; one instruction. Its NaN is 0x7FFF.
__device__ inline std::uint32_t round_bf16_word(float x) {
  std::uint32_t word = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x), "f"(0.0f));
  return word;
}
#endif

// Nearest, ties to even; a NaN becomes the canonical one.
SAMEBITS_HD constexpr Bf16 round_bf16(float x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    const std::uint32_t rounded = round_bf16_word(x) >> 16;
    return static_cast<Bf16>(rounded == 0x7FFF ? kNanBf16 : rounded);
  }
#endif
  const std::uint32_t u = bits(x);
  if (is_nan_bits(u)) return kNanBf16;
  return static_cast<Bf16>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}
// The same as a float. On a device a NaN stays some NaN: what is stored is made canonical when it is.
SAMEBITS_HD constexpr float rounded_bf16(float x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return from_bits(round_bf16_word(x));
#endif
  return widen(round_bf16(x));
}

// The f32 that is stored: x, or the canonical NaN.
SAMEBITS_HD constexpr float canonical_f32(float x) { return is_nan_bits(bits(x)) ? from_bits(kNanF32) : x; }

}  // namespace samebits::numerics
