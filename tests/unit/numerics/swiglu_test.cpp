// The activation and its gradient against docs/numerics.md section 4, transcribed with one rounding written
// out at a time.
#include "numerics/swiglu.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/sigma.hpp"
#include "support/equality.hpp"
#include "unit/numerics/mpfr_number.hpp"
#include "unit/numerics/operands.hpp"

namespace samebits::test {
namespace {

using numerics::round_bf16;
using numerics::widen;

// f32(x): one operation is done in double and rounded. Products are exact there, and a double of a sum or a
// difference is too wide for the second rounding to matter.
float f32(double x) { return static_cast<float>(x); }
double wide(float x) { return static_cast<double>(x); }
float times(float a, float b) { return f32(wide(a) * wide(b)); }
float plus(float a, float b) { return f32(wide(a) + wide(b)); }
float minus(float a, float b) { return f32(wide(a) - wide(b)); }
float bf16(float x) { return widen(round_bf16(x)); }

// fma(a, b, 1), rounded once.
float fma_one(float a, float b) {
  MpfrNumber value(1024, wide(a));
  mpfr_mul_d(value.get(), value.get(), wide(b), MPFR_RNDN);
  mpfr_add_ui(value.get(), value.get(), 1, MPFR_RNDN);
  return value.rounded_f32();
}

Bf16 act_one(float g, float u, float s) { return round_bf16(times(times(g, s), u)); }
Bf16 act_two(float g, float u, float s) { return round_bf16(times(bf16(times(g, s)), u)); }

numerics::SwigluGradient gradient_one(float d, float g, float u, float s) {
  const Bf16 d_up = round_bf16(times(d, times(g, s)));
  const Bf16 d_gate = round_bf16(times(times(times(d, u), s), plus(1.0f, times(g, minus(1.0f, s)))));
  return {d_gate, d_up};
}
numerics::SwigluGradient gradient_two(float d, float g, float u, float s) {
  const float S = bf16(times(g, s));
  const Bf16 d_up = round_bf16(times(d, S));
  const float dS = bf16(times(d, u));
  const Bf16 d_gate = round_bf16(times(times(dS, s), fma_one(g, minus(1.0f, s))));
  return {d_gate, d_up};
}

struct Element {
  Bf16 d, g, u;
};

Element random_element(Random& random, int i) {
  switch (i % 4) {
    case 0:  // as in a model
      return {bf16_between(random, 110, 128), bf16_between(random, 118, 131), bf16_between(random, 118, 130)};
    case 1:  // gates where sigma is small or almost one
      return {bf16_between(random, 100, 140), bf16_between(random, 129, 134), bf16_between(random, 100, 140)};
    case 2:
      return {special_bf16(random), special_bf16(random), special_bf16(random)};
    default:
      return {static_cast<Bf16>(random()), static_cast<Bf16>(random()), static_cast<Bf16>(random())};
  }
}

template <class Check>
void for_random_elements(int count, const Check& check) {
  Random random(15);
  for (int i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    const Element e = random_element(random, i);
    for (const Sigma kind : {Sigma::exact, Sigma::cuda}) check(e, numerics::sigma(kind, e.g));
  }
}

void expect_element(Bf16 ours, Bf16 expected, const Element& e) {
  ASSERT_EQ(ours, expected) << std::hex << "dA 0x" << e.d << " g 0x" << e.g << " u 0x" << e.u;
}

TEST(Swiglu, OneRounding) {
  for_random_elements(400'000, [](const Element& e, float s) {
    expect_element(numerics::swiglu(Swiglu::one, e.g, e.u, s), act_one(widen(e.g), widen(e.u), s), e);
    const auto ours = numerics::swiglu_gradient(Swiglu::one, e.d, e.g, e.u, s);
    const auto expected = gradient_one(widen(e.d), widen(e.g), widen(e.u), s);
    expect_element(ours.gate, expected.gate, e);
    expect_element(ours.up, expected.up, e);
  });
}

TEST(Swiglu, TwoRoundings) {
  for_random_elements(200'000, [](const Element& e, float s) {
    expect_element(numerics::swiglu(Swiglu::two, e.g, e.u, s), act_two(widen(e.g), widen(e.u), s), e);
    const auto ours = numerics::swiglu_gradient(Swiglu::two, e.d, e.g, e.u, s);
    const auto expected = gradient_two(widen(e.d), widen(e.g), widen(e.u), s);
    expect_element(ours.gate, expected.gate, e);
    expect_element(ours.up, expected.up, e);
  });
}

// The control: every rounding of the page shows, so that another order or a contraction would. Rounding to
// bf16 hides most: every gate where the gradient bends, with many partners.
TEST(Swiglu, OtherOrdersWouldShow) {
  int act_of_kinds = 0, gate_of_kinds = 0, act_reordered = 0, gate_contracted = 0;
  Random random(17);
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 gate = static_cast<Bf16>(pattern);
    const float g = widen(gate);
    if (!(std::fabs(g) > 0x1p-14f && std::fabs(g) < 80.0f)) continue;
    for (const Sigma sigma : {Sigma::exact, Sigma::cuda}) {
      const float s = numerics::sigma(sigma, gate);
      const float contracted = fma_one(g, minus(1.0f, s));
      for (int i = 0; i < 256; ++i) {
        const Bf16 d_act = bf16_between(random, 120, 127), up = bf16_between(random, 120, 127);
        const float d = widen(d_act), u = widen(up);
        const auto one = numerics::swiglu_gradient(Swiglu::one, d_act, gate, up, s);
        const auto two = numerics::swiglu_gradient(Swiglu::two, d_act, gate, up, s);
        const Bf16 act = numerics::swiglu(Swiglu::one, gate, up, s);
        act_of_kinds += act != numerics::swiglu(Swiglu::two, gate, up, s) ? 1 : 0;
        act_reordered += act != round_bf16(times(g, times(s, u))) ? 1 : 0;
        gate_of_kinds += one.gate != two.gate ? 1 : 0;
        gate_contracted += one.gate != round_bf16(times(times(times(d, u), s), contracted)) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(act_of_kinds, 0);
  EXPECT_GT(act_reordered, 0);
  EXPECT_GT(gate_of_kinds, 0);
  EXPECT_GT(gate_contracted, 0) << "under `one`, 1+g*(1-s) is two roundings";
}

TEST(Swiglu, GateOfMinusInfinityIsNaN) {
  const float s = numerics::sigma(Sigma::exact, 0xFF80);
  EXPECT_EQ(numerics::swiglu(Swiglu::one, 0xFF80, 0x3F80, s), numerics::kNanBf16);
  EXPECT_EQ(numerics::swiglu(Swiglu::two, 0xFF80, 0x3F80, s), numerics::kNanBf16);
}

// Catches lanes that are rounded when they should not be, and the other way round.
TEST(Swiglu, LanesAreAddedAsTheContractSays) {
  Random random(16);
  int differing = 0;
  for (int i = 0; i < 200'000; ++i) {
    const float gate = f32_between(random, 122, 128), up = f32_between(random, 122, 128);
    const Bf16 rounded = numerics::add_lanes(Precision::bf16, gate, up),
               whole = numerics::add_lanes(Precision::f32, gate, up);
    ASSERT_EQ(rounded, round_bf16(plus(bf16(gate), bf16(up))));
    ASSERT_EQ(whole, round_bf16(plus(gate, up)));
    differing += rounded != whole ? 1 : 0;
  }
  EXPECT_GT(differing, 0);
}

}  // namespace
}  // namespace samebits::test
