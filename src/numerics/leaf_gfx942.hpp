// Leaf arithmetic `gfx942`: one group of 8 after the published model of CDNA3's bf16 matrix instructions
// (docs/numerics.md section 3), in integers. Not verified on hardware.
#pragma once

#include <cstdint>

#include "numerics/bf16.hpp"
#include "numerics/operand.hpp"

namespace samebits::numerics {

inline constexpr int kGfx942Group = 8;

template <class A, class B>
SAMEBITS_HD constexpr float gfx942_step(float acc, const A& a, const B& b) {
  if (const Specials specials = special_sum(acc, kGfx942Group, a, b, true); specials.found)
    return specials.value;

  Significand product[kGfx942Group];
  bool any = false;
  int top = 0;
  for (int k = 0; k < kGfx942Group; ++k) {
    product[k] = product_of(a(k), b(k));
    if (product[k].value == 0) continue;
    if (!any || product[k].exponent > top) top = product[k].exponent;
    any = true;
  }
  if (!any) return acc + 0.0f;  // -0 becomes +0

  // The dot of the products, each truncated toward zero to a multiple of 2^(top - 24).
  std::int64_t dot = 0;
  for (const Significand& term : product) {
    if (term.value != 0) dot += truncated_shift(term.value * (1 << 10), top - term.exponent);
  }
  const Significand c = significand_of(acc);
  const int common = top > c.exponent ? top : c.exponent;
  // Both in units of 2^(common - 31): the dot floored there, acc floored to a multiple of 2^(common - 24).
  const std::int64_t sum =
      floored_shift(dot * 128, common - top) + floored_shift(c.value * 2, common - c.exponent) * 128;
  return nearest_f32(sum, common - 31);
}

}  // namespace samebits::numerics
