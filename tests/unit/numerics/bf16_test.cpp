// Rounding to bf16 against the neighbours of a number, found by scaling in double.
#include "numerics/bf16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace samebits::numerics {
namespace {

// The nearest multiple of the spacing of bf16 around x, ties to an even multiple. Every step but nearbyint is
// exact.
Bf16 nearest_model(float x) {
  if (std::isnan(x)) return 0x7FC0;
  const Bf16 sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isinf(x)) return static_cast<Bf16>(sign | 0x7F80);
  if (x == 0.0f) return sign;
  const int exponent = std::max(std::ilogb(x), -126);
  const double multiples = std::nearbyint(std::ldexp(std::fabs(static_cast<double>(x)), 7 - exponent));
  const double rounded = std::ldexp(multiples, exponent - 7);
  if (rounded >= std::ldexp(1.0, 128)) return static_cast<Bf16>(sign | 0x7F80);
  return static_cast<Bf16>(sign | (bits(static_cast<float>(rounded)) >> 16));
}

void expect_model(std::uint32_t pattern) {
  const float x = from_bits(pattern);
  ASSERT_EQ(round_bf16(x), nearest_model(x)) << std::hex << "f32 0x" << pattern;
}

// All 65,536 upper halves with the lower halves around a tie. Catches ties away from zero, ties to odd,
// truncation, a rounding that carries into the sign, and NaN that turn into infinities.
TEST(Bf16, RoundsEveryTieToEven) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      expect_model((high << 16) | low);
    if (HasFatalFailure()) return;
  }
}

TEST(Bf16, RoundsRandomPatterns) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 4'000'000 && !HasFatalFailure(); ++i)
    expect_model(static_cast<std::uint32_t>(random()));
}

TEST(Bf16, NamedValues) {
  EXPECT_EQ(round_bf16(0.0f), 0x0000);
  EXPECT_EQ(round_bf16(-0.0f), 0x8000);
  EXPECT_EQ(round_bf16(std::numeric_limits<float>::max()), 0x7F80) << "past the largest bf16 lies infinity";
  EXPECT_EQ(round_bf16(from_bits(0x7F7F7FFFu)), 0x7F7F) << "just below the tie to infinity";
  EXPECT_EQ(round_bf16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(round_bf16(from_bits(0x00008000u)), 0x0000) << "half of the smallest subnormal is a tie to zero";
  EXPECT_EQ(round_bf16(from_bits(0x00008001u)), 0x0001);
  EXPECT_EQ(round_bf16(from_bits(0x00018000u)), 0x0002);
  EXPECT_EQ(round_bf16(from_bits(0x007FFFFFu)), 0x0080) << "a subnormal may round up to the smallest normal";
}

// The NaN that is stored is one, whatever its sign and payload were.
TEST(Bf16, NaNsAreCanonical) {
  for (const std::uint32_t nan :
       {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC00000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(round_bf16(from_bits(nan)), kNanBf16) << std::hex << nan;
    EXPECT_EQ(bits(canonical_f32(from_bits(nan))), kNanF32) << std::hex << nan;
  }
  for (const std::uint32_t other : {0x7F800000u, 0xFF800000u, 0x80000000u, 0x00000001u}) {
    EXPECT_EQ(bits(canonical_f32(from_bits(other))), other) << std::hex << other;
  }
}

TEST(Bf16, WideningIsExactAndRoundsBack) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 x = static_cast<Bf16>(pattern);
    const bool nan = (x & 0x7FFF) > 0x7F80;
    ASSERT_EQ(bits(widen(x)), pattern << 16);
    ASSERT_EQ(round_bf16(widen(x)), nan ? kNanBf16 : x);
  }
}

}  // namespace
}  // namespace samebits::numerics
