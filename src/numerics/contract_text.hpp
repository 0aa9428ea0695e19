// The text of a contract, without allocation: presets, overrides, the canonical string and its fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "samebits/contract.hpp"

namespace samebits::numerics {

struct Preset {
  std::string_view name;
  Contract contract;
};

// One line a contract. A version never changes its bits.
inline constexpr Preset kPresets[] = {
    {"bf16-tree-v1",
     {Leaf::fma,
      {Rule::max, 32},
      {Rule::max, 32},
      {Rule::max, 32},
      Precision::bf16,
      Precision::bf16,
      Swiglu::one,
      Sigma::exact}},
    {"f32-tree-v1",
     {Leaf::fma,
      {Rule::halve, 0},
      {Rule::halve, 3},
      {Rule::block, 1024},
      Precision::f32,
      Precision::f32,
      Swiglu::one,
      Sigma::exact}},
    {"sm90-v1",
     {Leaf::sm90,
      {Rule::halve, 0},
      {Rule::halve, 3},
      {Rule::block, 2048},
      Precision::f32,
      Precision::f32,
      Swiglu::one,
      Sigma::exact}},
    {"hf-sm90-v1",
     {Leaf::sm90,
      {Rule::halve, 0},
      {Rule::halve, 0},
      {Rule::halve, 0},
      Precision::f32,
      Precision::bf16,
      Swiglu::two,
      Sigma::cuda}},
    {"gfx942-v1",
     {Leaf::gfx942,
      {Rule::halve, 0},
      {Rule::halve, 3},
      {Rule::block, 2048},
      Precision::f32,
      Precision::f32,
      Swiglu::one,
      Sigma::exact}},
};

// What is wrong with a text: the field it stands in and what is legal there. `problem` is null when nothing
// is.
struct ContractProblem {
  std::string_view field;
  const char* problem = nullptr;
};

ContractProblem parse_contract_text(std::string_view text, Contract& contract);

struct ContractText {
  char text[256] = {};
  std::size_t size = 0;
  std::string_view view() const { return {text, size}; }
};

ContractText canonical_text(const Contract& contract);

std::uint64_t fingerprint_of(std::string_view canonical);

std::string_view to_text(Leaf leaf);
std::string_view to_text(Rule rule);

}  // namespace samebits::numerics
