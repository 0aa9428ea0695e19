// What the matrix-core leaves see of an operand: an integer significand and an exponent, and the integer
// shifts and roundings that put exact sums back into f32.
#pragma once

#include <cstdint>

#include "numerics/bf16.hpp"

namespace samebits::numerics {

// bf16: value * 2^(exponent - 7), |value| < 2^8. f32: value * 2^(exponent - 23), |value| < 2^24.
// Subnormals keep exponent -126 and a value below the leading bit.
struct Significand {
  std::int64_t value = 0;
  int exponent = -126;
};

SAMEBITS_HD constexpr Significand significand_of(Bf16 x) {
  const int field = (x >> 7) & 0xFF;
  const std::int64_t magnitude = (x & 0x7F) | (field == 0 ? 0 : 0x80);
  return {(x & 0x8000) != 0 ? -magnitude : magnitude, field == 0 ? -126 : field - 127};
}

SAMEBITS_HD constexpr Significand significand_of(float x) {
  const std::uint32_t u = bits(x);
  const int field = static_cast<int>((u >> 23) & 0xFFu);
  const std::int64_t magnitude = static_cast<std::int64_t>(u & 0x7FFFFFu) | (field == 0 ? 0 : 0x800000);
  return {(u >> 31) != 0 ? -magnitude : magnitude, field == 0 ? -126 : field - 127};
}

// The exact product of two bf16: value * 2^(exponent - 14), not renormalised.
SAMEBITS_HD constexpr Significand product_of(Bf16 a, Bf16 b) {
  const Significand x = significand_of(a), y = significand_of(b);
  return {x.value * y.value, x.exponent + y.exponent};
}

// value * 2^-shift, truncated toward zero; |value| < 2^62, shift >= 0.
SAMEBITS_HD constexpr std::int64_t truncated_shift(std::int64_t value, int shift) {
  const std::int64_t magnitude = (value < 0 ? -value : value) >> (shift > 62 ? 62 : shift);
  return value < 0 ? -magnitude : magnitude;
}

// value * 2^-shift, rounded toward minus infinity; |value| < 2^62, shift >= 0.
SAMEBITS_HD constexpr std::int64_t floored_shift(std::int64_t value, int shift) {
  return value >> (shift > 62 ? 62 : shift);
}

namespace detail {

SAMEBITS_HD constexpr int bit_length(std::uint64_t x) {
  int length = 0;
  for (; x != 0; x >>= 1) ++length;
  return length;
}

// magnitude * 2^exponent as f32. `nearest`: ties to even; otherwise toward zero. Overflow is infinity, zero
// is +0.
SAMEBITS_HD constexpr float pack_f32(bool negative, std::uint64_t magnitude, int exponent, bool nearest) {
  if (magnitude == 0) return 0.0f;
  // The last kept bit: 23 below the leading one, but never below 2^-149.
  int last = bit_length(magnitude) - 24 + exponent;
  if (last < -149) last = -149;
  const int drop = last - exponent;
  std::uint64_t kept = 0;
  if (drop <= 0) {
    kept = magnitude << -drop;
  } else if (drop < 64) {
    kept = magnitude >> drop;
    if (nearest) {
      const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1);
      const std::uint64_t half = std::uint64_t{1} << (drop - 1);
      if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    }
  }
  if (kept == std::uint64_t{1} << 24) {
    kept >>= 1;
    ++last;
  }
  if (kept == 0) return 0.0f;
  const std::uint32_t sign = negative ? 0x80000000u : 0u;
  if (kept < 0x800000u) return from_bits(sign | static_cast<std::uint32_t>(kept));  // subnormal: last == -149
  const int field = last + 23 + 127;
  if (field >= 255) return from_bits(sign | 0x7F800000u);
  return from_bits(sign | (static_cast<std::uint32_t>(field) << 23) |
                   (static_cast<std::uint32_t>(kept) & 0x7FFFFFu));
}

SAMEBITS_HD constexpr std::uint64_t magnitude_of(std::int64_t value) {
  return value < 0 ? static_cast<std::uint64_t>(-value) : static_cast<std::uint64_t>(value);
}

}  // namespace detail

SAMEBITS_HD constexpr float toward_zero_f32(std::int64_t value, int exponent) {
  return detail::pack_f32(value < 0, detail::magnitude_of(value), exponent, false);
}
SAMEBITS_HD constexpr float nearest_f32(std::int64_t value, int exponent) {
  return detail::pack_f32(value < 0, detail::magnitude_of(value), exponent, true);
}

// A group with NaN or infinity among its terms: the value of its IEEE sum, which is NaN or an infinity.
struct Specials {
  bool found = false;
  float value = 0.0f;
};

// `overflows`: a finite product of magnitude 2^128 or more counts as infinity.
template <class A, class B>
SAMEBITS_HD constexpr Specials special_sum(float acc, int count, const A& a, const B& b,
                                           bool overflows = false) {
  constexpr std::uint32_t kInf = 0x7F800000u;
  bool nan = is_nan_bits(bits(acc));
  bool plus = bits(acc) == kInf, minus = bits(acc) == (kInf | 0x80000000u);
  for (int k = 0; k < count; ++k) {
    const Bf16 x = a(k), y = b(k);
    bool infinite = (x & 0x7F80) == 0x7F80 || (y & 0x7F80) == 0x7F80;
    if (infinite) {
      nan = nan || (x & 0x7FFF) > 0x7F80 || (y & 0x7FFF) > 0x7F80;  // a NaN operand
      nan = nan || (x & 0x7FFF) == 0 || (y & 0x7FFF) == 0;          // infinity times zero
    } else if (overflows) {
      const Significand p = product_of(x, y);
      const std::int64_t two = 2 << 14;
      infinite =
          p.value != 0 && (p.exponent >= 128 || (p.exponent == 127 && (p.value >= two || p.value <= -two)));
    }
    const bool negative = ((x ^ y) & 0x8000) != 0;
    plus = plus || (infinite && !negative);
    minus = minus || (infinite && negative);
  }
  if (nan || (plus && minus)) return {true, from_bits(kNanF32)};
  if (plus || minus) return {true, from_bits(plus ? kInf : kInf | 0x80000000u)};
  return {};
}

}  // namespace samebits::numerics
