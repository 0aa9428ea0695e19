// Eight lanes of plain C++: what every machine runs, and what the others are compared with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "numerics/bf16.hpp"

namespace samebits::engine::cpu {

struct Plain {
  static constexpr int kLanes = 8;
  static constexpr int kPanelRows = 4;
  static constexpr int kPanelVectors = 1;
  template <class T, int N = kLanes>
  struct Array {
    T lane[N];
  };
  using F = Array<float>;
  using I = Array<std::int32_t>;
  using M = I;
  using D = Array<double, kLanes / 2>;

  template <class R, class Make>
  static R each(const Make& make) {
    R out;
    for (int i = 0; i < static_cast<int>(sizeof out.lane / sizeof out.lane[0]); ++i) out.lane[i] = make(i);
    return out;
  }
  static std::int32_t wrap(std::uint32_t x) { return std::bit_cast<std::int32_t>(x); }
  static std::uint32_t u(std::int32_t x) { return std::bit_cast<std::uint32_t>(x); }

  static F zero() { return set(0.0f); }
  static F set(float x) {
    return each<F>([&](int) { return x; });
  }
  static F load(const float* p) {
    return each<F>([&](int i) { return p[i]; });
  }
  static void store(float* p, const F& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = x.lane[i];
  }
  static F broadcast(const float* p) { return set(*p); }
  static F fma(const F& a, const F& b, const F& c) {
    return each<F>([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static F add(const F& a, const F& b) {
    return each<F>([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static F mul(const F& a, const F& b) {
    return each<F>([&](int i) { return a.lane[i] * b.lane[i]; });
  }

  static I set(std::int32_t x) {
    return each<I>([&](int) { return x; });
  }
  static I load(const std::int32_t* p) {
    return each<I>([&](int i) { return p[i]; });
  }
  static void store(std::int32_t* p, const I& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = x.lane[i];
  }
  static I broadcast(const std::int32_t* p) { return set(*p); }
  static I add(const I& a, const I& b) {
    return each<I>([&](int i) { return wrap(u(a.lane[i]) + u(b.lane[i])); });
  }
  static I sub(const I& a, const I& b) {
    return each<I>([&](int i) { return wrap(u(a.lane[i]) - u(b.lane[i])); });
  }
  static I max(const I& a, const I& b) {
    return each<I>([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static I min(const I& a, const I& b) {
    return each<I>([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static I bit_and(const I& a, const I& b) {
    return each<I>([&](int i) { return a.lane[i] & b.lane[i]; });
  }
  static I bit_or(const I& a, const I& b) {
    return each<I>([&](int i) { return a.lane[i] | b.lane[i]; });
  }
  template <int N>
  static I left(const I& a) {
    return each<I>([&](int i) { return wrap(u(a.lane[i]) << N); });
  }
  template <int N>
  static I right(const I& a) {
    return each<I>([&](int i) { return wrap(u(a.lane[i]) >> N); });
  }
  static I arithmetic_right(const I& a, const I& count) {
    return each<I>([&](int i) { return a.lane[i] >> count.lane[i]; });
  }

  static I as_int(const F& x) { return std::bit_cast<I>(x); }
  static F as_float(const I& x) { return std::bit_cast<F>(x); }
  // As the processors do it: what no 32-bit integer holds becomes the most negative one.
  static I truncate(const F& x) {
    return each<I>([&](int i) {
      const float v = x.lane[i];
      return v >= -0x1p31f && v < 0x1p31f ? static_cast<std::int32_t>(v) : INT32_MIN;
    });
  }
  static F to_float(const I& x) {
    return each<F>([&](int i) { return static_cast<float>(x.lane[i]); });
  }

  static M equal(const I& a, const I& b) {
    return each<M>([&](int i) { return a.lane[i] == b.lane[i] ? -1 : 0; });
  }
  static M greater(const I& a, const I& b) {
    return each<M>([&](int i) { return a.lane[i] > b.lane[i] ? -1 : 0; });
  }
  static M either(const M& a, const M& b) { return bit_or(a, b); }
  static bool any(const M& m) {
    std::int32_t all = 0;
    for (const std::int32_t lane : m.lane) all |= lane;
    return all != 0;
  }
  static F select(const M& m, const F& yes, const F& no) {
    return each<F>([&](int i) { return m.lane[i] != 0 ? yes.lane[i] : no.lane[i]; });
  }
  static I select(const M& m, const I& yes, const I& no) {
    return each<I>([&](int i) { return m.lane[i] != 0 ? yes.lane[i] : no.lane[i]; });
  }

  static F round_bf16(const F& x) {
    return each<F>([&](int i) { return numerics::rounded_bf16(x.lane[i]); });
  }
  static F load_bf16(const std::uint16_t* p) {
    return each<F>([&](int i) { return numerics::widen(p[i]); });
  }
  static void store_bf16(std::uint16_t* p, const F& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = numerics::round_bf16(x.lane[i]);
  }
  static F canonical(const F& x) {
    return each<F>([&](int i) { return numerics::canonical_f32(x.lane[i]); });
  }
  // Lane i reads the two neighbours p[i * stride] and p[i * stride + 1].
  static void gather_pairs(const std::uint16_t* p, const I& offsets, F& first, F& second) {
    first = each<F>([&](int i) { return numerics::widen(p[offsets.lane[i]]); });
    second = each<F>([&](int i) { return numerics::widen(p[offsets.lane[i] + 1]); });
  }
  static I offsets(std::int32_t stride) {
    return each<I>([&](int i) { return i * stride; });
  }

  template <int Half>
  static D to_double(const I& x) {
    return each<D>([&](int i) { return static_cast<double>(x.lane[i + Half * (kLanes / 2)]); });
  }
  template <int Half>
  static D power_of_two(const I& exponent) {
    return each<D>([&](int i) {
      return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent.lane[i + Half * (kLanes / 2)])
                                   << 52);
    });
  }
  static D add(const D& a, const D& b) {
    return each<D>([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static D mul(const D& a, const D& b) {
    return each<D>([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static F nearest(const D& low, const D& high) {
    return each<F>(
        [&](int i) { return static_cast<float>(i < kLanes / 2 ? low.lane[i] : high.lane[i - kLanes / 2]); });
  }
  // Toward zero; a magnitude of 2^128 or more is infinite. The nearest f32 is pulled back by one ulp where it
  // went past.
  static F toward_zero(const D& low, const D& high) {
    return each<F>([&](int i) {
      const double x = i < kLanes / 2 ? low.lane[i] : high.lane[i - kLanes / 2];
      const float near = static_cast<float>(x);
      const bool past = std::fabs(static_cast<double>(near)) > std::fabs(x) && std::fabs(x) < 0x1p128;
      return past ? numerics::from_bits(numerics::bits(near) - 1) : near;
    });
  }
};

}  // namespace samebits::engine::cpu
