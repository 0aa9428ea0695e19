// What the matrix-core leaves read on vector lanes: operands prepared as an f32 significand and an int32
// exponent, and the accumulator taken apart. V is a vector of f32 or int32 lanes (engine/cpu/simd_*.hpp).
#pragma once

#include <cstdint>

namespace samebits::numerics {

// The exponent that stands for "zero": no sum of two exponents with it reaches one of a nonzero product.
inline constexpr std::int32_t kZeroOperandExponent = -1000;

// bf16 lanes (as f32) to significand * 2^(exponent - 7): |significand| in [128, 256), below 128 for
// subnormals. NaN and infinity stay as they are in `significand`, so that IEEE products and sums find them
// again.
template <class V>
struct PreparedLanes {
  typename V::F significand;
  typename V::I exponent;
  bool special;  // some lane is NaN or infinity
};

template <class V>
inline auto is_special(typename V::F x) {
  return V::equal(V::bit_and(V::as_int(x), V::set(0x7F800000)), V::set(0x7F800000));
}

template <class V>
inline PreparedLanes<V> prepare_lanes(typename V::F x) {
  using I = typename V::I;
  const I u = V::as_int(x);
  const I field = V::bit_and(V::template right<23>(u), V::set(0xFF));
  const auto tiny = V::equal(field, V::set(0));
  const auto zero = V::equal(V::template left<1>(u), V::set(0));
  const auto special = V::equal(field, V::set(0xFF));
  const I normal = V::bit_or(V::bit_and(u, V::set(static_cast<std::int32_t>(0x807FFFFF))), V::set(134 << 23));
  const I sign = V::bit_and(u, V::set(static_cast<std::int32_t>(0x80000000)));
  const I count = V::as_int(V::to_float(V::bit_and(V::template right<16>(u), V::set(0x7F))));
  const I subnormal = V::bit_or(count, sign);
  I exponent = V::select(tiny, V::set(-126), V::sub(field, V::set(127)));
  exponent = V::select(V::either(zero, special), V::set(kZeroOperandExponent), exponent);
  const I significand = V::select(tiny, subnormal, V::select(special, u, normal));
  return {V::as_float(significand), exponent, V::any(special)};
}

// Sixteen consecutive k: one row operand broadcast, against a vector of lane operands.
template <class V>
struct LaneGroup {
  const float* row_significand;
  const std::int32_t* row_exponent;
  const float* lane_significand;
  const std::int32_t* lane_exponent;
  std::int64_t lane_stride;  // from one k to the next

  typename V::I exponent(int k) const {
    return V::add(V::broadcast(row_exponent + k), V::load(lane_exponent + k * lane_stride));
  }
  // Exact: an integer below 2^16.
  typename V::F product(int k) const {
    return V::mul(V::broadcast(row_significand + k), V::load(lane_significand + k * lane_stride));
  }
};

template <class V>
struct LaneAccumulator {
  using F = typename V::F;
  using I = typename V::I;
  using M = typename V::M;

  explicit LaneAccumulator(F value) : bits(V::as_int(value)), acc(value) {
    const I field = V::bit_and(V::template right<23>(bits), V::set(0xFF));
    tiny = V::equal(field, V::set(0));
    zero = V::equal(V::template left<1>(bits), V::set(0));
    special = V::equal(field, V::set(0xFF));
    exponent = V::select(tiny, V::set(-126), V::sub(field, V::set(127)));
  }

  // acc / 2^exponent.
  F significand() const {
    const I normal =
        V::bit_or(V::bit_and(bits, V::set(static_cast<std::int32_t>(0x807FFFFF))), V::set(127 << 23));
    return V::select(tiny, V::mul(acc, V::set(0x1p126f)), V::as_float(normal));
  }
  // acc / 2^(exponent - 23), an integer below 2^24.
  I integer() const {
    const I fraction = V::bit_and(bits, V::set(0x7FFFFF));
    const I magnitude = V::select(tiny, fraction, V::bit_or(fraction, V::set(0x800000)));
    return V::select(V::greater(V::set(0), bits), V::sub(V::set(0), magnitude), magnitude);
  }

  I bits, exponent;
  F acc;
  M tiny, zero, special;
};

}  // namespace samebits::numerics
