// gfx942_step on a vector of lanes: the same integers as leaf_gfx942.hpp, in f32 and int32 lanes.
#pragma once

#include "numerics/lane_group.hpp"

namespace samebits::numerics {

// One group of 8 of each lane: products first .. first + 7 of `group`.
template <class V>
inline typename V::F gfx942_step_lanes(typename V::F acc, const LaneGroup<V>& group, int first,
                                       bool special) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int kNoProduct = 2 * kZeroOperandExponent;
  const LaneAccumulator<V> c(acc);

  // e_d, the largest exponent of the nonzero products.
  I exponent[8];
  I top = V::set(kNoProduct);
  for (int k = 0; k < 8; ++k) {
    exponent[k] = group.exponent(first + k);
    top = V::max(top, exponent[k]);
  }
  const auto none = V::greater(V::set(kZeroOperandExponent / 2), top);

  // The dot in units of 2^(e_d - 24), each product truncated toward zero: below 2^30.
  const I offset = V::sub(V::set(127 + 10), top);
  I dot = V::set(0);
  for (int k = 0; k < 8; ++k) {
    const I field = V::max(V::add(exponent[k], offset), V::set(0));
    dot =
        V::add(dot, V::truncate(V::mul(group.product(first + k), V::as_float(V::template left<23>(field)))));
  }

  // Both floored against E = max(e_d, e_acc), then added exactly in double and rounded once.
  const I common = V::max(top, c.exponent);
  const auto clamp = [](I count) { return V::min(V::max(count, V::set(0)), V::set(31)); };
  const I dot_unit = V::max(V::sub(common, V::set(31)), V::sub(top, V::set(24)));
  const I dot_floor = V::arithmetic_right(dot, clamp(V::sub(V::sub(common, top), V::set(7))));
  const I acc_unit = V::max(V::sub(common, V::set(24)), V::sub(c.exponent, V::set(23)));
  const I acc_floor = V::arithmetic_right(c.integer(), clamp(V::sub(V::sub(common, c.exponent), V::set(1))));
  const auto total = [&]<int Half>() {
    return V::add(V::mul(V::template to_double<Half>(dot_floor), V::template power_of_two<Half>(dot_unit)),
                  V::mul(V::template to_double<Half>(acc_floor), V::template power_of_two<Half>(acc_unit)));
  };
  F result = V::nearest(total.template operator()<0>(), total.template operator()<1>());
  result = V::select(V::either(none, c.special), acc, result);
  result = V::add(result, V::zero());  // a zero is +0

  const auto may_overflow = V::greater(top, V::set(126));
  if (special || V::any(may_overflow)) {
    F sum_of_specials = V::select(c.special, acc, V::zero());
    for (int k = 0; k < 8; ++k) {
      const F product = group.product(first + k);
      const I magnitude = V::bit_and(V::as_int(product), V::set(0x7FFFFFFF));
      const auto large =
          V::greater(magnitude, V::set(0x46FFFFFF));  // |significands| >= 2^15: the product reaches 2
      const I reach = V::select(large, V::add(exponent[k], V::set(1)), exponent[k]);
      const auto overflow = V::greater(reach, V::set(127));
      sum_of_specials = V::add(
          sum_of_specials, V::select(overflow, V::mul(product, V::as_float(V::set(0x7F800000))), product));
    }
    result = V::select(is_special<V>(sum_of_specials), sum_of_specials, result);
  }
  return result;
}

}  // namespace samebits::numerics
