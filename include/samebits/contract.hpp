// A contract says what every bit of a result is (docs/numerics.md). This is its plain data, and its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/export.hpp"

namespace samebits {

enum class Leaf : std::uint8_t { fma, sm90, gfx942 };  // the arithmetic inside a leaf
enum class Rule : std::uint8_t { max, halve, block };  // how an axis becomes a tree
enum class Precision : std::uint8_t { bf16, f32 };     // of tree nodes; of the two lanes of dX
enum class Swiglu : std::uint8_t { one, two };         // roundings in the activation
enum class Sigma : std::uint8_t { exact, cuda };       // correctly rounded, or PyTorch's on CUDA

struct AxisRule {
  Rule rule = Rule::max;
  std::int64_t value = 32;
  bool operator==(const AxisRule&) const = default;
};

struct Contract {
  Leaf leaf = Leaf::fma;
  AxisRule hidden{};
  AxisRule intermediate{};
  AxisRule tokens{};
  Precision node = Precision::bf16;
  Precision lanes = Precision::bf16;
  Swiglu swiglu = Swiglu::one;
  Sigma sigma = Sigma::exact;
  bool operator==(const Contract&) const = default;
};

// "sm90-v1", "sm90-v1,node=bf16,I=halve:4", or a canonical string. Throws Error(invalid_argument) naming the
// field.
SAMEBITS_API Contract parse_contract(std::string_view text);

// "samebits/1;leaf=fma;H=max:32;...": the resolved fields in their one order.
SAMEBITS_API std::string canonical(const Contract& contract);

// XXH3-64 of the canonical string, 16 hex digits.
SAMEBITS_API std::string fingerprint(const Contract& contract);

// The preset's name where the contract is one, the canonical string otherwise.
SAMEBITS_API std::string name_of(const Contract& contract);

SAMEBITS_API std::vector<std::string_view> contract_presets();

}  // namespace samebits
