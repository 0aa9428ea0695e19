// sm90_step on a vector of lanes, for processors without Hopper's tensor cores: the same integers as
// leaf_sm90.hpp, in f32 and int32 lanes. V is a vector of f32 or int32 lanes (engine/cpu/simd_*.hpp).
#pragma once

#include "numerics/lane_group.hpp"

namespace samebits::numerics {

// D16 of each lane: acc, and products of row operand k with lane operand k.
template <class V>
inline typename V::F sm90_step_lanes(typename V::F acc, const LaneGroup<V>& group, bool special) {
  using F = typename V::F;
  using I = typename V::I;
  const LaneAccumulator<V> c(acc);

  // E, the largest exponent of the seventeen terms; a zero term counts as -133.
  I exponent[16];
  I top = V::select(c.zero, V::set(-133), c.exponent);
  for (int k = 0; k < 16; ++k) {
    exponent[k] = group.exponent(k);
    top = V::max(top, exponent[k]);
  }
  top = V::max(top, V::set(-133));

  // Terms in units of 2^(E - 25), truncated toward zero. The sixteen products fill 31 bits; acc joins them in
  // double.
  const I offset = V::sub(V::set(127 + 11), top);
  I sum = V::set(0);
  for (int k = 0; k < 16; ++k) {
    const I field = V::max(V::add(exponent[k], offset), V::set(0));
    sum = V::add(sum, V::truncate(V::mul(group.product(k), V::as_float(V::template left<23>(field)))));
  }
  const I acc_field = V::max(V::add(V::sub(c.exponent, top), V::set(127 + 25)), V::set(0));
  const I term = V::truncate(V::mul(c.significand(), V::as_float(V::template left<23>(acc_field))));

  const I unit = V::sub(top, V::set(25));
  const auto total = [&]<int Half>() {
    return V::mul(V::add(V::template to_double<Half>(sum), V::template to_double<Half>(term)),
                  V::template power_of_two<Half>(unit));
  };
  F result = V::toward_zero(total.template operator()<0>(), total.template operator()<1>());
  result = V::add(result, V::zero());  // a zero is +0
  result = V::select(c.special, acc, result);
  if (special) {
    F sum_of_specials = V::select(c.special, acc, V::zero());
    for (int k = 0; k < 16; ++k) sum_of_specials = V::add(sum_of_specials, group.product(k));
    result = V::select(is_special<V>(sum_of_specials), sum_of_specials, result);
  }
  return result;
}

}  // namespace samebits::numerics
