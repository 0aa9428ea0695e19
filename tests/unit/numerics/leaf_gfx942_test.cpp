// The gfx942 group against the steps of docs/numerics.md section 3, taken in rational numbers, and in double
// where those are too slow. Not verified on hardware: what is checked is that the code is the page.
#include "numerics/leaf_gfx942.hpp"

#include <gmpxx.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/equality.hpp"
#include "unit/numerics/mpfr_number.hpp"
#include "unit/numerics/operands.hpp"

namespace samebits::test {
namespace {

using numerics::bits;

constexpr int kGroup = 8;

float step(const Group& group) {
  return numerics::gfx942_step(
      group.acc, [&](int k) { return group.a[k]; }, [&](int k) { return group.b[k]; });
}

int exponent_of(double x) { return x == 0.0 ? -126 : std::max(std::ilogb(x), -126); }

// What both models share, all of it exact in double: the products, their exponents, and what is not finite.
struct Terms {
  double products[kGroup] = {};
  bool any = false;  // a product that is not zero
  int e_d = 0;
  bool special = false;
  double ieee = 0.0;

  explicit Terms(const Group& group) : ieee(static_cast<double>(group.acc)) {
    for (int k = 0; k < kGroup; ++k) {
      const double a = static_cast<double>(numerics::widen(group.a[k])),
                   b = static_cast<double>(numerics::widen(group.b[k]));
      double p = a * b;
      if (std::fabs(p) >= 0x1p128) p = std::copysign(std::numeric_limits<double>::infinity(), p);
      ieee += p;
      products[k] = p;
      if (p == 0.0 || !std::isfinite(p)) continue;
      const int exponent = exponent_of(a) + exponent_of(b);
      e_d = any ? std::max(e_d, exponent) : exponent;
      any = true;
    }
    special = !std::isfinite(ieee);
  }
};

// Rationals: nothing is rounded but where the rule says so.
mpq_class power_of_two(int exponent) {
  mpq_class power = 1;
  if (exponent >= 0) {
    mpq_mul_2exp(power.get_mpq_t(), power.get_mpq_t(), exponent);
  } else {
    mpq_div_2exp(power.get_mpq_t(), power.get_mpq_t(), -exponent);
  }
  return power;
}
mpq_class floored(const mpq_class& x, int exponent) {  // to a multiple of 2^exponent
  const mpq_class units = x / power_of_two(exponent);
  mpz_class whole;
  mpz_fdiv_q(whole.get_mpz_t(), units.get_num_mpz_t(), units.get_den_mpz_t());
  return mpq_class(whole) * power_of_two(exponent);
}
mpq_class truncated(const mpq_class& x, int exponent) {
  return x < 0 ? -floored(-x, exponent) : floored(x, exponent);
}

float rational_model(const Group& group) {
  const Terms terms(group);
  if (terms.special) return static_cast<float>(terms.ieee);
  if (!terms.any) return group.acc + 0.0f;
  mpq_class dot = 0;
  for (const double product : terms.products) dot += truncated(mpq_class(product), terms.e_d - 24);
  const int common = std::max(terms.e_d, exponent_of(static_cast<double>(group.acc)));
  const mpq_class sum =
      floored(dot, common - 31) + floored(mpq_class(static_cast<double>(group.acc)), common - 24);
  if (sum == 0) return 0.0f;
  MpfrNumber exact(1024);
  mpfr_set_q(exact.get(), sum.get_mpq_t(), MPFR_RNDN);
  const float result = exact.rounded_f32();
  return result == 0.0f ? 0.0f : result;
}

// The same in double, which holds every intermediate: 30 bits of the dot, 37 of the sum. Its numbers open to
// change.
struct Gfx942 {
  int product_bits = 24, dot_bits = 31, acc_bits = 24;
  double (*cut_product)(double) = std::trunc;
  double (*cut_sum)(double) = std::floor;
  bool zero_acc_counts = true;

  float operator()(const Group& group) const {
    const Terms terms(group);
    if (terms.special) return static_cast<float>(terms.ieee);
    if (!terms.any) return group.acc + 0.0f;
    const auto cut = [](double (*how)(double), double x, int exponent) {
      return std::ldexp(how(std::ldexp(x, -exponent)), exponent);
    };
    double dot = 0.0;
    for (const double product : terms.products) dot += cut(cut_product, product, terms.e_d - product_bits);
    const double acc = static_cast<double>(group.acc);
    const int common = acc == 0.0 && !zero_acc_counts ? terms.e_d : std::max(terms.e_d, exponent_of(acc));
    const float result =
        static_cast<float>(cut(cut_sum, dot, common - dot_bits) + cut(cut_sum, acc, common - acc_bits));
    return result == 0.0f ? 0.0f : result;
  }
};

template <class Model>
void expect_model(const Model& model, int cases, std::uint64_t seed) {
  Random random(seed);
  for (const Kind kind : kKinds) {
    for (int i = 0; i < cases; ++i) {
      const Group group = random_group(kind, random);
      const float ours = step(group), expected = model(group);
      ASSERT_TRUE(same_element(ours, expected, NaNs::any))
          << "kind " << static_cast<int>(kind) << " case " << i << std::hex << ": 0x" << bits(ours)
          << " against 0x" << bits(expected);
    }
  }
}

TEST(LeafGfx942, EqualsThePageInRationals) { expect_model(rational_model, 12'000, 10); }

TEST(LeafGfx942, EqualsThePageOnMillionsOfGroups) { expect_model(Gfx942{}, 300'000, 11); }

// The control: each number of the rule shows on these inputs.
TEST(LeafGfx942, EveryPartOfTheRuleShows) {
  const auto differing = [](const Gfx942& mutant) {
    Random random(12);
    int count = 0;
    for (const Kind kind : kKinds) {
      for (int i = 0; i < 20'000; ++i) {
        const Group group = random_group(kind, random);
        count += same_element(step(group), mutant(group), NaNs::any) ? 0 : 1;
      }
    }
    return count;
  };
  EXPECT_EQ(differing(Gfx942{}), 0);
  EXPECT_GT(differing(Gfx942{.product_bits = 23}), 0);
  EXPECT_GT(differing(Gfx942{.product_bits = 25}), 0);
  EXPECT_GT(differing(Gfx942{.dot_bits = 30}), 0);
  EXPECT_GT(differing(Gfx942{.dot_bits = 32}), 0);
  EXPECT_GT(differing(Gfx942{.acc_bits = 23}), 0);
  EXPECT_GT(differing(Gfx942{.acc_bits = 25}), 0);
  EXPECT_GT(differing(Gfx942{.cut_product = std::floor}), 0);
  EXPECT_GT(differing(Gfx942{.cut_sum = std::trunc}), 0);
}

// With no product but zeros acc passes unchanged, whatever the exponents of the zeros' partners, and -0
// becomes +0.
TEST(LeafGfx942, ZeroProductsPassTheAccumulator) {
  Group group;
  for (int k = 0; k < kGroup; ++k) group.a[k] = 0x8000, group.b[k] = 0x7F7F;
  for (const std::uint32_t acc :
       {0x00000000u, 0x00000001u, 0x80000001u, 0x807FFFFFu, 0x3F800001u, 0x7F7FFFFFu, 0xFF800000u}) {
    group.acc = numerics::from_bits(acc);
    EXPECT_EQ(bits(step(group)), acc);
  }
  group.acc = -0.0f;
  EXPECT_EQ(bits(step(group)), 0u);
}

// One tiny product among zeros whose partners are huge: a zero's exponent must not count, nor shift by its
// own.
TEST(LeafGfx942, ZerosHaveNoExponent) {
  Group group;
  for (int k = 1; k < kGroup; ++k) group.a[k] = 0x0000, group.b[k] = 0x7F7F;
  group.a[0] = 0x2000, group.b[0] = 0x1F80;  // 2^-63 * 2^-64
  EXPECT_EQ(bits(step(group)), bits(std::ldexp(1.0f, -127)));
  group.a[0] = 0x0001, group.b[0] = 0x0001;  // 2^-266
  EXPECT_EQ(bits(step(group)), 0u);
}

TEST(LeafGfx942, OverflowingProductsAreInfinite) {
  Group group;
  group.a[0] = 0x5F80, group.b[0] = 0x5F80;  // 2^64 * 2^64
  EXPECT_EQ(bits(step(group)), 0x7F800000u);
  group.a[1] = 0xDF80, group.b[1] = 0x5F80;
  EXPECT_EQ(bits(step(group)), numerics::kNanF32) << "infinity minus infinity";
  group = {};
  group.a[0] = 0x5FB5, group.b[0] = 0x5F35;  // (181/128)^2 * 2^127 is just below 2^128
  EXPECT_EQ(bits(step(group)), 0x7F7FF200u);
  group.a[1] = 0xDF80, group.b[1] = 0x5F00;
  EXPECT_EQ(bits(step(group)), 0x7EFFE400u) << "back from the edge";
}

}  // namespace
}  // namespace samebits::test
