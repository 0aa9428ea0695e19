// Leaf arithmetic `fma`: acc = fma(a, b, acc) in f32, the same on every IEEE machine.
#pragma once

#include <cmath>

#include "numerics/bf16.hpp"

namespace samebits::numerics {

SAMEBITS_HD inline float fma_step(float acc, Bf16 a, Bf16 b) { return std::fma(widen(a), widen(b), acc); }

}  // namespace samebits::numerics
