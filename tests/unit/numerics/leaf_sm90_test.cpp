// D16 against what an H200 returned, and against a second model of the rule in double.
#include "numerics/leaf_sm90.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "support/equality.hpp"
#include "unit/numerics/operands.hpp"

namespace samebits::test {
namespace {

using numerics::bits;

float step(const Group& group) {
  return numerics::sm90_step(
      group.acc, [&](int k) { return group.a[k]; }, [&](int k) { return group.b[k]; });
}

struct Recorded {
  std::int32_t kind = 0;
  Group group;
  float result = 0.0f;
};

// docs/numerics.md section 7.
std::vector<Recorded> read_recording() {
  std::ifstream file(std::string(SAMEBITS_FIXTURES) + "/hopper_mma_k16.bin", std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const char* at = bytes.data();
  const auto read = [&at](void* to, std::size_t size) {
    std::memcpy(to, at, size);
    at += size;
  };
  std::vector<Recorded> cases;
  std::int32_t tiles = 0;
  if (bytes.size() < 8 || std::memcmp(at, "SBV1", 4) != 0) return cases;
  at += 4;
  read(&tiles, 4);
  struct Tile {
    std::int32_t kind;
    Bf16 a[64][16], b[8][16];
    float c[64][8], d[64][8];
  };
  static_assert(sizeof(Tile) == 4 + 64 * 32 + 8 * 32 + 2 * 64 * 32);
  if (bytes.size() != 8 + static_cast<std::size_t>(tiles) * sizeof(Tile)) return cases;
  for (std::int32_t t = 0; t < tiles; ++t) {
    Tile tile;
    read(&tile, sizeof tile);
    for (int m = 0; m < 64; ++m) {
      for (int n = 0; n < 8; ++n) {
        Recorded one{tile.kind, {tile.c[m][n], {}, {}}, tile.d[m][n]};
        std::copy_n(tile.a[m], 16, one.group.a.begin());
        std::copy_n(tile.b[n], 16, one.group.b.begin());
        cases.push_back(one);
      }
    }
  }
  return cases;
}

// The rule of docs/numerics.md section 3, step by step in double, with each number of it open to change.
// Every step is exact: a product has 16 bits, a truncated term at most 27, their sum 32.
struct D16 {
  int fraction_bits = 25;        // terms are truncated to multiples of 2^(E - this)
  int zero_exponent = -133;      // of a term that is zero
  bool renormalised = false;     // whether a product in [2, 4) counts one exponent more
  bool normal_operands = false;  // whether a subnormal operand is normalised first
  double (*cut)(double) = std::trunc;
  bool to_nearest = false;  // the last rounding
  bool overflows = false;   // a product of magnitude 2^128 or more becomes infinity
  bool keeps_minus_zero = false;

  static int exponent_of(double x, bool normalise) {
    const int exponent = std::ilogb(x);
    return normalise ? exponent : std::max(exponent, -126);
  }

  float operator()(const Group& group) const {
    double terms[17] = {static_cast<double>(group.acc)}, ieee = terms[0];
    int exponents[17] = {terms[0] == 0.0 ? zero_exponent : exponent_of(terms[0], normal_operands)};
    bool minus_zeros = std::signbit(group.acc) && terms[0] == 0.0;
    for (int k = 0; k < 16; ++k) {
      const double a = static_cast<double>(numerics::widen(group.a[k])),
                   b = static_cast<double>(numerics::widen(group.b[k]));
      double& p = terms[k + 1] = a * b;
      if (overflows && std::fabs(p) >= 0x1p128) p = std::copysign(std::numeric_limits<double>::infinity(), p);
      ieee += p;
      if (!std::isfinite(p)) continue;
      exponents[k + 1] = p == 0.0       ? zero_exponent
                         : renormalised ? exponent_of(p, true)
                                        : exponent_of(a, normal_operands) + exponent_of(b, normal_operands);
      minus_zeros = minus_zeros && p == 0.0;
    }
    if (!std::isfinite(ieee))
      return static_cast<float>(ieee);  // finite terms stay below 2^261: only NaN or inf end here

    const int largest = *std::max_element(exponents, exponents + 17);
    double sum = 0.0;
    for (const double term : terms) sum += cut(std::ldexp(term, fraction_bits - largest));
    sum = std::ldexp(sum, largest - fraction_bits);
    if (sum == 0.0) return keeps_minus_zero && minus_zeros ? -0.0f : 0.0f;
    if (std::fabs(sum) >= 0x1p128)
      return static_cast<float>(std::copysign(std::numeric_limits<double>::infinity(), sum));
    float result = static_cast<float>(sum);
    if (!to_nearest && std::fabs(static_cast<double>(result)) > std::fabs(sum))
      result = std::nextafterf(result, 0.0f);
    return result == 0.0f ? 0.0f : result;
  }
};

class LeafSm90 : public testing::Test {
 protected:
  static void SetUpTestSuite() { recorded_ = new std::vector<Recorded>(read_recording()); }
  static void TearDownTestSuite() {
    delete recorded_;
    recorded_ = nullptr;
  }
  static const std::vector<Recorded>& recorded() { return *recorded_; }

  template <class Model>
  static int differing(const Model& model) {
    int count = 0;
    for (const Recorded& one : recorded())
      count += same_element(model(one.group), one.result, NaNs::any) ? 0 : 1;
    return count;
  }

 private:
  static inline std::vector<Recorded>* recorded_ = nullptr;
};

TEST_F(LeafSm90, EqualsAllRecordedCases) {
  ASSERT_EQ(recorded().size(), 32768u);
  std::vector<float> ours, theirs;
  for (const Recorded& one : recorded()) {
    ours.push_back(step(one.group));
    theirs.push_back(one.result);
  }
  expect_same_bits("D16 against the H200, a row a tile", ours, theirs, 64, 512, NaNs::any);
}

// The control: each part of the rule is seen by the recording, so that a wrong one would be. All but the
// exponent of a zero term, which no recorded case depends on: the next test stands for it.
TEST_F(LeafSm90, EveryPartOfTheRuleShowsInTheRecording) {
  EXPECT_EQ(differing(D16{}), 0) << "the second model is the rule";
  EXPECT_GT(differing(D16{.fraction_bits = 24}), 0);
  EXPECT_GT(differing(D16{.fraction_bits = 26}), 0);
  EXPECT_GT(differing(D16{.renormalised = true}), 0);
  EXPECT_GT(differing(D16{.normal_operands = true}), 0);
  EXPECT_GT(differing(D16{.cut = std::floor}), 0);
  EXPECT_GT(differing(D16{.cut = std::nearbyint}), 0);
  EXPECT_GT(differing(D16{.to_nearest = true}), 0);
  EXPECT_GT(differing(D16{.overflows = true}), 0);
}

// Sixteen terms whose largest exponent is below that of a zero: two products of exponents -150 and -151 sum
// to 2^-149, but only if no bit of theirs lies below 2^(-133 - 25).
TEST_F(LeafSm90, AZeroTermHasExponentMinus133) {
  const auto scaled = [](float significand, int exponent) {
    return numerics::round_bf16(std::ldexp(significand, exponent));
  };
  Group kept, cut;  // multiples of 2^-158; of 2^-159
  kept.a[0] = scaled(7, -80), kept.b[0] = scaled(37, -78), kept.a[1] = scaled(11, -80),
  kept.b[1] = scaled(23, -78);
  cut.a[0] = scaled(27, -80), cut.b[0] = scaled(19, -79), cut.a[1] = scaled(7, -80),
  cut.b[1] = scaled(73, -79);
  EXPECT_EQ(bits(step(kept)), 1u);
  EXPECT_EQ(bits(step(cut)), 0u);
  EXPECT_EQ(bits(D16{.zero_exponent = -132}(kept)), 0u);
  EXPECT_EQ(bits(D16{.zero_exponent = -134}(cut)), 1u);
}

// Beyond the recording: millions of cases of every kind against the second model.
TEST_F(LeafSm90, EqualsTheModelOnRandomGroups) {
  Random random(7);
  const D16 model;
  for (const Kind kind : kKinds) {
    for (int i = 0; i < 150'000; ++i) {
      const Group group = random_group(kind, random);
      const float ours = step(group), expected = model(group);
      ASSERT_TRUE(same_element(ours, expected, NaNs::any))
          << "kind " << static_cast<int>(kind) << " case " << i << std::hex << ": 0x" << bits(ours)
          << " against 0x" << bits(expected);
    }
  }
}

// The sum inside a group is exact: loads may permute k.
TEST_F(LeafSm90, OrderInsideAGroupIsFree) {
  Random random(8);
  for (const Kind kind : kKinds) {
    for (int i = 0; i < 20'000; ++i) {
      Group group = random_group(kind, random);
      const float before = step(group);
      for (std::uint64_t k = 15; k > 0; --k) {
        const std::uint64_t other = below(random, k + 1);
        std::swap(group.a[k], group.a[other]);
        std::swap(group.b[k], group.b[other]);
      }
      ASSERT_EQ(bits(step(group)), bits(before)) << "kind " << static_cast<int>(kind) << " case " << i;
    }
  }
}

// But not across groups: two steps are not one sum. Without this, the test above might hold for any operands.
TEST_F(LeafSm90, OrderAcrossGroupsIsNot) {
  Random random(9);
  int changed = 0;
  for (int i = 0; i < 2000; ++i) {
    Group first = random_group(Kind::cancelling, random), second = random_group(Kind::normal, random);
    first.acc = 0.0f;
    const auto two_steps = [](Group one, Group two) {
      two.acc = step(one);
      return step(two);
    };
    const float before = two_steps(first, second);
    std::swap(first.a[3], second.a[5]);
    std::swap(first.b[3], second.b[5]);
    if (bits(two_steps(first, second)) != bits(before)) ++changed;
  }
  EXPECT_GT(changed, 0);
}

// A result of zero is +0: the sum was zero, was negative and rounded away, or acc was -0 and all products
// zero.
TEST_F(LeafSm90, ZeroIsPositive) {
  Group group;
  group.acc = -0.0f;
  EXPECT_EQ(bits(step(group)), 0u) << "-0 and products of +0";
  for (int k = 0; k < 16; ++k)
    group.a[k] = 0x8000, group.b[k] = 0x7F7F;  // -0 times the largest: any exponent at all
  EXPECT_EQ(bits(step(group)), 0u);
  group = {};
  group.a[0] = 0x8001, group.b[0] = 0x0001;  // -2^-266
  EXPECT_EQ(bits(step(group)), 0u);
  group = {};
  group.acc = 1.0f;
  group.a[0] = 0x3F80, group.b[0] = 0xBF80;
  EXPECT_EQ(bits(step(group)), 0u) << "1 - 1";
}

TEST_F(LeafSm90, NaNsAreCanonical) {
  Group group;
  group.acc = numerics::from_bits(0xFFC12345u);
  EXPECT_EQ(bits(step(group)), numerics::kNanF32);
  group.acc = 0.0f;
  group.a[2] = 0x7F80;  // infinity times zero
  EXPECT_EQ(bits(step(group)), numerics::kNanF32);
  group.b[2] = 0x3F80;
  EXPECT_EQ(bits(step(group)), 0x7F800000u);
  group.acc = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits(step(group)), numerics::kNanF32) << "infinity minus infinity";
}

}  // namespace
}  // namespace samebits::test
