// F16 and F32 bits to the nearest bf16, ties to even, in integers: no rounding mode or flush-to-zero can
// interfere.
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/bf16.hpp"

namespace samebits::io {

constexpr numerics::Bf16 bf16_of_f32(std::uint32_t bits) {
  if (numerics::is_nan_bits(bits)) return numerics::kNanBf16;
  return static_cast<numerics::Bf16>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Every f16 is an f32, so one rounding is made.
constexpr std::uint32_t f32_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) return sign | 0x7F800000u | (fraction << 13);
  if (exponent != 0) return sign | ((exponent + 112u) << 23) | (fraction << 13);
  if (fraction == 0) return sign;
  // A subnormal is fraction * 2^-24; its leading one, at bit `top` of 0..9, becomes the implicit one.
  const auto top = static_cast<std::uint32_t>(std::bit_width(fraction)) - 1u;
  return sign | ((top + 103u) << 23) | ((fraction << (23u - top)) & 0x7FFFFFu);
}

constexpr numerics::Bf16 bf16_of_f16(std::uint16_t bits) { return bf16_of_f32(f32_of_f16(bits)); }

}  // namespace samebits::io
