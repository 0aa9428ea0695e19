// The activation and its gradient (docs/numerics.md section 4), one element. `s` is sigma(g) of the contract.
#pragma once

#include <cmath>

#include "numerics/bf16.hpp"
#include "samebits/contract.hpp"

namespace samebits::numerics {

SAMEBITS_HD inline Bf16 swiglu(Swiglu kind, Bf16 gate, Bf16 up, float s) {
  const float silu = widen(gate) * s;
  return round_bf16((kind == Swiglu::two ? rounded_bf16(silu) : silu) * widen(up));
}

struct SwigluGradient {
  Bf16 gate;
  Bf16 up;
};

SAMEBITS_HD inline SwigluGradient swiglu_gradient(Swiglu kind, Bf16 d_act, Bf16 gate, Bf16 up, float s) {
  const float d = widen(d_act), g = widen(gate), u = widen(up);
  if (kind == Swiglu::two) {  // PyTorch's kernels: bf16 between operations, one fma inside silu's gradient
    const float silu = rounded_bf16(g * s);
    const float d_silu = rounded_bf16(d * u);
    return {round_bf16((d_silu * s) * std::fma(g, 1.0f - s, 1.0f)), round_bf16(d * silu)};
  }
  const float inner = g * (1.0f - s);
  return {round_bf16(((d * u) * s) * (1.0f + inner)), round_bf16(d * (g * s))};
}

// dX from the two roots: each rounded first (`lanes=bf16`), or added in f32 and rounded once.
SAMEBITS_HD inline Bf16 add_lanes(Precision lanes, float gate_root, float up_root) {
  if (lanes == Precision::bf16) return round_bf16(rounded_bf16(gate_root) + rounded_bf16(up_root));
  return round_bf16(gate_root + up_root);
}

}  // namespace samebits::numerics
