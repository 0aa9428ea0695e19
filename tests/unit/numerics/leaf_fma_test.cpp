// One step of the fma leaf against the exact a*b+c, rounded once.
#include "numerics/leaf_fma.hpp"

#include <gtest/gtest.h>

#include "support/equality.hpp"
#include "unit/numerics/mpfr_number.hpp"
#include "unit/numerics/operands.hpp"

namespace samebits::test {
namespace {

using numerics::bits;
using numerics::widen;

// 1024 bits hold any a*b+c of f32 numbers exactly.
float exact_fma(float acc, Bf16 a, Bf16 b) {
  MpfrNumber x(1024, static_cast<double>(widen(a))), y(1024, static_cast<double>(widen(b)));
  MpfrNumber sum(1024, static_cast<double>(acc)), product(1024);
  mpfr_mul(product.get(), x.get(), y.get(), MPFR_RNDN);
  mpfr_add(sum.get(), product.get(), sum.get(), MPFR_RNDN);
  return sum.rounded_f32();
}

TEST(LeafFma, IsRoundedOnce) {
  Random random(13);
  for (const Kind kind : kKinds) {
    for (int i = 0; i < 3'000; ++i) {
      const Group group = random_group(kind, random);
      float acc = group.acc;
      for (int k = 0; k < 16; ++k) {
        const float ours = numerics::fma_step(acc, group.a[k], group.b[k]);
        const float expected = exact_fma(acc, group.a[k], group.b[k]);
        ASSERT_TRUE(same_element(ours, expected, NaNs::any))
            << "kind " << static_cast<int>(kind) << " case " << i << std::hex << ": 0x" << bits(ours)
            << " against 0x" << bits(expected);
        acc = ours;
      }
    }
  }
}

// The control: where the product leaves the range of f32, which is the only place where it is not exact
// there, a product rounded on its own gives other bits.
TEST(LeafFma, TwoRoundingsWouldShow) {
  Random random(14);
  for (const Kind kind : {Kind::subnormal, Kind::overflow}) {
    int changed = 0;
    for (int i = 0; i < 50'000; ++i) {
      const Group group = random_group(kind, random);
      const float product = widen(group.a[0]) * widen(group.b[0]);
      if (bits(product + group.acc) != bits(numerics::fma_step(group.acc, group.a[0], group.b[0]))) ++changed;
    }
    EXPECT_GT(changed, 0) << "kind " << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace samebits::test
