// One chain of a contract's leaf over an interval, literally.
// To add a leaf: write leaf_NAME.hpp, add it to samebits::Leaf, give it its line in leaf_table.hpp and its
// case here.
#pragma once

#include "numerics/leaf_fma.hpp"
#include "numerics/leaf_gfx942.hpp"
#include "numerics/leaf_sm90.hpp"
#include "samebits/contract.hpp"

namespace samebits::numerics {

// acc continued over k in [begin, end), upward; a short last group is filled with +0. A leaf starts with acc
// = +0.
template <class A, class B>
SAMEBITS_HD constexpr float chain(Leaf leaf, float acc, std::int64_t begin, std::int64_t end, const A& a,
                                  const B& b) {
  if (leaf == Leaf::fma) {
    for (std::int64_t k = begin; k < end; ++k) acc = fma_step(acc, a(k), b(k));
    return acc;
  }
  for (std::int64_t first = begin; first < end; first += 16) {
    Bf16 x[16] = {}, y[16] = {};
    for (int k = 0; k < 16 && first + k < end; ++k) {
      x[k] = a(first + k);
      y[k] = b(first + k);
    }
    const auto from = [](const Bf16* group) { return [group](int k) { return group[k]; }; };
    if (leaf == Leaf::sm90) {
      acc = sm90_step(acc, from(x), from(y));
    } else {  // two groups of 8, the second chained on the first
      acc = gfx942_step(acc, from(x), from(y));
      acc = gfx942_step(acc, from(x + kGfx942Group), from(y + kGfx942Group));
    }
  }
  return acc;
}

// A node's rounding: bf16, or none.
SAMEBITS_HD constexpr float node(Precision precision, float x) {
  return precision == Precision::bf16 ? rounded_bf16(x) : x;
}

}  // namespace samebits::numerics
