// Random bf16 operands of the kinds that find errors of order: see Values.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace samebits::test {

enum class Values {
  normal,      // around one, all seven fraction bits
  wide,        // exponents over a range of 2^120
  cancelling,  // pairs of large values of opposite sign, so that sums lose their leading bits
  subnormal,   // subnormals and their neighbours
  special,     // normal with infinities, NaNs and signed zeros among them
  raw,         // any bit pattern
};
inline constexpr Values kAllValues[] = {Values::normal,    Values::wide,    Values::cancelling,
                                        Values::subnormal, Values::special, Values::raw};
inline const char* name_of(Values kind) {
  constexpr const char* kNames[] = {"normal", "wide", "cancelling", "subnormal", "special", "raw"};
  return kNames[static_cast<int>(kind)];
}

using Random = std::mt19937_64;

inline std::int64_t uniform(Random& random, std::int64_t low, std::int64_t high) {  // both included
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline std::uint16_t random_bf16(Random& random, Values kind, std::size_t index) {
  const auto bits = static_cast<std::uint16_t>(random());
  const auto with_exponent = [&](std::int64_t field) {
    return static_cast<std::uint16_t>((bits & 0x807F) | (field << 7));
  };
  switch (kind) {
    case Values::normal:
      return with_exponent(uniform(random, 122, 127));
    case Values::wide:
      return with_exponent(uniform(random, 67, 187));
    case Values::cancelling: {
      const bool large = uniform(random, 0, 3) == 0;
      const auto value = with_exponent(large ? uniform(random, 134, 136) : uniform(random, 120, 127));
      return static_cast<std::uint16_t>(large ? (value & 0x7FFF) | ((index & 1) << 15) : value);
    }
    case Values::subnormal:
      return with_exponent(uniform(random, 0, 3));
    case Values::special: {
      constexpr std::uint16_t kSpecials[] = {0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x0000, 0x8000, 0x7F7F, 0xFF7F};
      if (uniform(random, 0, 199) == 0) return kSpecials[uniform(random, 0, 7)];
      if (uniform(random, 0, 9) == 0) return static_cast<std::uint16_t>(bits & 0x8000);
      return with_exponent(uniform(random, 122, 127));
    }
    case Values::raw:
      return bits;
  }
  return bits;
}

inline std::vector<std::uint16_t> random_tensor(Random& random, Values kind, std::int64_t elements) {
  std::vector<std::uint16_t> tensor(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = random_bf16(random, kind, i);
  return tensor;
}

}  // namespace samebits::test
