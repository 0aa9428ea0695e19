// Leaf arithmetic `sm90`: D16, what one Hopper bf16 k16 step computes (docs/numerics.md section 3), in integers.
#pragma once

#include <cstdint>

#include "numerics/bf16.hpp"
#include "numerics/operand.hpp"

namespace samebits::numerics {

inline constexpr int kSm90Group = 16;

// D16(acc, a[0] * b[0], ..., a[15] * b[15]); `a(k)` and `b(k)` give bit patterns.
template <class A, class B>
SAMEBITS_HD constexpr float sm90_step(float acc, const A& a, const B& b) {
  constexpr int kZeroExponent = -133;
  if (const Specials specials = special_sum(acc, kSm90Group, a, b); specials.found) return specials.value;

  const Significand c = significand_of(acc);  // c.value * 2^(c.exponent - 23)
  int top = c.value == 0 ? kZeroExponent : c.exponent;
  for (int k = 0; k < kSm90Group; ++k) {
    const Significand x = significand_of(a(k)), y = significand_of(b(k));
    const int exponent = x.value * y.value == 0 ? kZeroExponent : x.exponent + y.exponent;
    if (exponent > top) top = exponent;
  }
  // Each term in units of 2^(top - 25), truncated toward zero: below 2^27, so the sum of seventeen is exact.
  std::int64_t sum = truncated_shift(c.value, top - c.exponent - 2);
  for (int k = 0; k < kSm90Group; ++k) {
    const Significand x = significand_of(a(k)), y = significand_of(b(k));
    sum += truncated_shift(x.value * y.value, top - (x.exponent + y.exponent) - 11);
  }
  return toward_zero_f32(sum, top - 25);
}

}  // namespace samebits::numerics
