// The integer roundings against the definition: the nearest bf16, found by search.
#include "io/to_bf16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace samebits {
namespace {

// The value of f16 bits, by the definition.
double value_of_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double value_of_bf16(std::uint16_t bits) { return static_cast<double>(numerics::widen(bits)); }

TEST(ToBf16, EveryF16) {
  for (std::uint32_t u = 0; u < 0x10000u; ++u) {
    const auto f16 = static_cast<std::uint16_t>(u);
    const numerics::Bf16 got = io::bf16_of_f16(f16);
    if ((u & 0x7FFFu) > 0x7C00u) {
      ASSERT_EQ(got, numerics::kNanBf16);
      continue;
    }
    if ((u & 0x7FFFu) == 0x7C00u) {
      ASSERT_EQ(got, (u & 0x8000u) != 0 ? 0xFF80 : 0x7F80);
      continue;
    }
    ASSERT_EQ(got & 0x8000, f16 & 0x8000) << "the sign stays, of zeros too";
    const double value = std::fabs(value_of_f16(f16));
    const auto magnitude = static_cast<std::uint16_t>(got & 0x7FFF);
    const double error = std::fabs(value_of_bf16(magnitude) - value);
    const double above = std::fabs(value_of_bf16(static_cast<std::uint16_t>(magnitude + 1)) - value);
    ASSERT_TRUE(error < above || (error == above && magnitude % 2 == 0)) << u;
    if (magnitude > 0) {
      const double below = std::fabs(value_of_bf16(static_cast<std::uint16_t>(magnitude - 1)) - value);
      ASSERT_TRUE(error < below || (error == below && magnitude % 2 == 0)) << u;
    }
  }
}

TEST(ToBf16, F32AtEveryTieAndBesideIt) {
  for (std::uint32_t high = 0; high < 0x10000u; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const std::uint32_t bits = (high << 16) | low;
      const numerics::Bf16 got = io::bf16_of_f32(bits);
      if (numerics::is_nan_bits(bits)) {
        ASSERT_EQ(got, numerics::kNanBf16);
        continue;
      }
      const bool up = low > 0x8000u || (low == 0x8000u && (high & 1u) != 0);
      ASSERT_EQ(got, static_cast<numerics::Bf16>(high + (up ? 1u : 0u))) << bits;
    }
  }
}

}  // namespace
}  // namespace samebits
