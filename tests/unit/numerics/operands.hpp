// Random groups of products as the leaves meet them: one kind for each way a rule can go wrong.
#pragma once

#include <array>
#include <cstdint>
#include <random>

#include "numerics/bf16.hpp"

namespace samebits::test {

using numerics::Bf16;
using Random = std::mt19937_64;

// acc and sixteen products.
struct Group {
  float acc = 0.0f;
  std::array<Bf16, 16> a{}, b{};
};

enum class Kind { normal, wide, cancelling, subnormal, special, raw, overflow };
inline constexpr Kind kKinds[] = {Kind::normal,  Kind::wide, Kind::cancelling, Kind::subnormal,
                                  Kind::special, Kind::raw,  Kind::overflow};

inline std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

// Exponent field in [low, high], any sign and fraction.
inline Bf16 bf16_between(Random& random, int low, int high) {
  const auto field = static_cast<unsigned>(low) + static_cast<unsigned>(below(random, high - low + 1));
  return static_cast<Bf16>(((random() & 1u) << 15) | (field << 7) | (random() & 0x7Fu));
}
inline float f32_between(Random& random, int low, int high) {
  const auto field = static_cast<unsigned>(low) + static_cast<unsigned>(below(random, high - low + 1));
  const std::uint64_t u = ((random() & 1u) << 31) | (std::uint64_t{field} << 23) | (random() & 0x7FFFFFu);
  return numerics::from_bits(static_cast<std::uint32_t>(u));
}

// Zeros, infinities and NaN of either sign; now and then an ordinary number.
inline Bf16 special_bf16(Random& random) {
  constexpr Bf16 kSpecials[] = {0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x3F80};
  return kSpecials[below(random, 8)];
}

inline Group random_group(Kind kind, Random& random) {
  Group group;
  const auto fill = [&](int a_low, int a_high, int b_low, int b_high) {
    for (int k = 0; k < 16; ++k) {
      group.a[k] = bf16_between(random, a_low, a_high);
      group.b[k] = bf16_between(random, b_low, b_high);
    }
  };
  switch (kind) {
    case Kind::normal:
      fill(123, 130, 120, 128);
      group.acc = f32_between(random, 120, 132);
      break;
    case Kind::wide:
      fill(90, 160, 90, 160);
      group.acc = f32_between(random, 60, 190);
      break;
    case Kind::cancelling:  // products in pairs of opposite sign, whose fractions differ in the last bit or
                            // not at all
      fill(125, 129, 125, 129);
      group.acc = f32_between(random, 100, 128);
      for (int k = 0; k < 16; k += 2) {
        group.a[k + 1] = static_cast<Bf16>(group.a[k] ^ (random() & 1u));
        group.b[k + 1] = static_cast<Bf16>(group.b[k] ^ 0x8000u);
      }
      break;
    case Kind::subnormal:  // products around and below 2^-126, some of subnormal operands
      fill(0, 30, 90, 127);
      group.acc = f32_between(random, 0, 3);
      break;
    case Kind::special:
      fill(123, 130, 120, 128);
      group.acc =
          below(random, 4) == 0 ? numerics::widen(special_bf16(random)) : f32_between(random, 120, 132);
      for (std::uint64_t k = 0; k < 16; ++k) {
        if (below(random, 8) == 0) (below(random, 2) == 0 ? group.a : group.b)[k] = special_bf16(random);
      }
      break;
    case Kind::raw:  // any pattern; half of the groups without NaN and infinity, which would hide the rest
      group.acc = numerics::from_bits(static_cast<std::uint32_t>(random()));
      for (int k = 0; k < 16; ++k) {
        group.a[k] = static_cast<Bf16>(random());
        group.b[k] = static_cast<Bf16>(random());
      }
      if (below(random, 2) == 0) {
        fill(0, 190, 0, 190);
        group.acc = f32_between(random, 0, 254);
        if (below(random, 4) == 0) {  // sparse: most products zero, so that small terms lead
          for (std::uint64_t k = 0; k < 16; ++k) {
            if (below(random, 8) != 0) (below(random, 2) == 0 ? group.a : group.b)[k] = 0;
          }
          if (below(random, 2) == 0) group.acc = below(random, 2) == 0 ? 0.0f : -0.0f;
        }
      }
      break;
    case Kind::overflow:  // products and sums around 2^128
      fill(187, 192, 187, 192);
      group.acc = f32_between(random, 250, 254);
      break;
  }
  return group;
}

}  // namespace samebits::test
