// Leaf arithmetic `sm90`: D16, what one Hopper bf16 k16 step computes (docs/numerics.md section 3), in
// integers.
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
  Significand product[kSm90Group];
  int top = c.value == 0 ? kZeroExponent : c.exponent;
  for (int k = 0; k < kSm90Group; ++k) {
    product[k] = product_of(a(k), b(k));
    if (product[k].value == 0) product[k].exponent = kZeroExponent;
    if (product[k].exponent > top) top = product[k].exponent;
  }
  // Each term truncated toward zero to a multiple of 2^(top - 25): below 2^27 of them, so the sum of
  // seventeen is exact.
  std::int64_t sum = truncated_shift(c.value * (1 << 2), c.value == 0 ? 0 : top - c.exponent);
  for (const Significand& term : product) sum += truncated_shift(term.value * (1 << 11), top - term.exponent);
  return toward_zero_f32(sum, top - 25);
}

}  // namespace samebits::numerics
