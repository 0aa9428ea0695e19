// The activation and its gradient (docs/numerics.md section 4), one element. `s` is sigma(g) of the contract.
#pragma once

#include <cmath>

#include "numerics/bf16.hpp"
#include "samebits/contract.hpp"

namespace samebits::numerics {

// Before the last rounding; `g` and `u` are the bf16 values widened.
SAMEBITS_HD inline float swiglu_unrounded(Swiglu kind, float g, float u, float s) {
  const float silu = g * s;
  return (kind == Swiglu::two ? rounded_bf16(silu) : silu) * u;
}
SAMEBITS_HD inline Bf16 swiglu(Swiglu kind, Bf16 gate, Bf16 up, float s) {
  return round_bf16(swiglu_unrounded(kind, widen(gate), widen(up), s));
}

template <class Value>
struct GateAndUp {
  Value gate;
  Value up;
};

SAMEBITS_HD inline GateAndUp<float> swiglu_gradient_unrounded(Swiglu kind, float d, float g, float u,
                                                              float s) {
  if (kind == Swiglu::two) {  // PyTorch's kernels: bf16 between operations, one fma inside silu's gradient
    const float silu = rounded_bf16(g * s);
    const float d_silu = rounded_bf16(d * u);
    return {(d_silu * s) * std::fma(g, 1.0f - s, 1.0f), d * silu};
  }
  const float inner = g * (1.0f - s);
  return {((d * u) * s) * (1.0f + inner), d * (g * s)};
}
using SwigluGradient = GateAndUp<Bf16>;
SAMEBITS_HD inline SwigluGradient swiglu_gradient(Swiglu kind, Bf16 d_act, Bf16 gate, Bf16 up, float s) {
  const GateAndUp<float> d = swiglu_gradient_unrounded(kind, widen(d_act), widen(gate), widen(up), s);
  return {round_bf16(d.gate), round_bf16(d.up)};
}

// dX from the two roots: each rounded first (`lanes=bf16`), or added in f32 and rounded once.
SAMEBITS_HD inline Bf16 add_lanes(Precision lanes, float gate_root, float up_root) {
  if (lanes == Precision::bf16) return round_bf16(rounded_bf16(gate_root) + rounded_bf16(up_root));
  return round_bf16(gate_root + up_root);
}

}  // namespace samebits::numerics
