// One chain of a leaf: ascending, short groups filled with +0, continued at multiples of the granule, within
// its bounds.
#include <gtest/gtest.h>

#include <vector>

#include "numerics/leaf.hpp"
#include "numerics/tree.hpp"
#include "unit/numerics/operands.hpp"

namespace samebits::test {
namespace {

using numerics::bits;
using numerics::chain;

constexpr Leaf kLeaves[] = {Leaf::fma, Leaf::sm90, Leaf::gfx942};

struct Operands {
  std::vector<Bf16> a, b;
  Operands(std::int64_t length, std::uint64_t seed) : a(length), b(length) {
    Random random(seed);
    for (Bf16& x : a) x = bf16_between(random, 120, 130);
    for (Bf16& x : b) x = bf16_between(random, 120, 130);
  }
  float run(Leaf leaf, float acc, std::int64_t begin, std::int64_t end) const {
    return chain(
        leaf, acc, begin, end, [&](std::int64_t k) { return a.at(k); },
        [&](std::int64_t k) { return b.at(k); });
  }
};

// One step after the other by hand.
float steps(Leaf leaf, std::int64_t begin, std::int64_t end, const Operands& operands) {
  float acc = 0.0f;
  if (leaf == Leaf::fma) {
    for (std::int64_t k = begin; k < end; ++k) acc = numerics::fma_step(acc, operands.a[k], operands.b[k]);
    return acc;
  }
  std::vector<Bf16> a(operands.a.begin() + begin, operands.a.begin() + end);
  std::vector<Bf16> b(operands.b.begin() + begin, operands.b.begin() + end);
  a.resize((a.size() + 15) / 16 * 16, 0);
  b.resize(a.size(), 0);
  const std::size_t group = leaf == Leaf::sm90 ? 16 : 8;
  for (std::size_t first = 0; first < a.size(); first += group) {
    const auto x = [&](int k) { return a[first + k]; };
    const auto y = [&](int k) { return b[first + k]; };
    acc = leaf == Leaf::sm90 ? numerics::sm90_step(acc, x, y) : numerics::gfx942_step(acc, x, y);
  }
  return acc;
}

TEST(Chain, GoesUpInStepsAndFillsTheLast) {
  const Operands operands(200, 4);
  for (const Leaf leaf : kLeaves) {
    for (std::int64_t begin = 0; begin < 70; begin += 3) {
      for (std::int64_t end = begin; end <= 200; end += 7) {
        ASSERT_EQ(bits(operands.run(leaf, 0.0f, begin, end)), bits(steps(leaf, begin, end, operands)))
            << "leaf " << static_cast<int>(leaf) << " over " << begin << ".." << end;
      }
    }
  }
}

// An open leaf is continued later: the accumulator is all that is carried.
TEST(Chain, ContinuesAtMultiplesOfTheGranule) {
  const Operands operands(200, 5);
  for (const Leaf leaf : kLeaves) {
    const std::int64_t granule = numerics::granule_of(leaf);
    for (std::int64_t middle = 0; middle <= 192; middle += granule) {
      const float whole = operands.run(leaf, 0.0f, 0, 200);
      const float parts = operands.run(leaf, operands.run(leaf, 0.0f, 0, middle), middle, 200);
      ASSERT_EQ(bits(parts), bits(whole)) << "leaf " << static_cast<int>(leaf) << " at " << middle;
    }
  }
}

// The control of the test above: off the granule the groups are others, and bits change.
TEST(Chain, OffTheGranuleItIsAnotherSum) {
  for (const Leaf leaf : {Leaf::sm90, Leaf::gfx942}) {
    int changed = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Operands operands(200, seed);
      const float parts = operands.run(leaf, operands.run(leaf, 0.0f, 0, 20), 20, 200);
      if (bits(parts) != bits(operands.run(leaf, 0.0f, 0, 200))) ++changed;
    }
    EXPECT_GT(changed, 0) << "leaf " << static_cast<int>(leaf);
  }
}

TEST(Chain, AnEmptyIntervalLeavesTheAccumulator) {
  const Operands operands(1, 6);
  for (const Leaf leaf : kLeaves) {
    EXPECT_EQ(bits(operands.run(leaf, 0.0f, 0, 0)), 0u);
    EXPECT_EQ(bits(operands.run(leaf, -1.5f, 0, 0)), bits(-1.5f));
  }
}

// A node's rounding: catches leaves that are rounded in f32 trees, and nodes that are not in bf16 trees.
TEST(Chain, NodesRoundToTheirType) {
  const float x = numerics::from_bits(0x3F80C001u);
  EXPECT_EQ(bits(numerics::node(Precision::f32, x)), 0x3F80C001u);
  EXPECT_EQ(bits(numerics::node(Precision::bf16, x)), 0x3F810000u);
  EXPECT_EQ(bits(numerics::node(Precision::f32, numerics::from_bits(0x3F808000u))), 0x3F808000u);
  EXPECT_EQ(bits(numerics::node(Precision::bf16, numerics::from_bits(0x3F808000u))), 0x3F800000u);
}

}  // namespace
}  // namespace samebits::test
