// What becomes of one element of a few-token contraction. Neighbouring threads hold neighbouring rows of the
// weights, which are neighbours in memory.
#pragma once

#include "engine/cuda/nodes.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::stream {

struct StoreElement {
  static constexpr int kParts = 1;
  static constexpr bool kActivates = false;
  Target target;  // rows are tokens
  __device__ void store(int token, std::int64_t row, float value, int node) const {
    store_node(target, target.start_of_row(token) + row * target.col_stride + node * target.node_stride,
               value);
  }
};

// bf16 matrices [tokens, I] whose columns are neighbours.
struct ActivateElement {
  static constexpr int kParts = 2;
  static constexpr bool kActivates = true;
  std::uint16_t *gate, *up, *act;
  std::int64_t gate_stride, up_stride, act_stride;
  const float* sigma;
  Swiglu kind;
  bool keep;
  __device__ void store(int token, std::int64_t row, float gate_root, float up_root) const {
    const std::uint16_t g = numerics::round_bf16(gate_root), u = numerics::round_bf16(up_root);
    act[token * act_stride + row] = numerics::swiglu(kind, g, u, __ldg(sigma + g));
    if (!keep) return;
    gate[token * gate_stride + row] = g;
    up[token * up_stride + row] = u;
  }
};

struct GradientElement {
  static constexpr int kParts = 1;
  static constexpr bool kActivates = true;
  const std::uint16_t *gate, *up;
  std::uint16_t *d_gate, *d_up;
  std::int64_t gate_stride, up_stride, d_gate_stride, d_up_stride;
  const float* sigma;
  Swiglu kind;
  __device__ void store(int token, std::int64_t row, float d_act, int) const {
    const std::uint16_t g = gate[token * gate_stride + row], u = up[token * up_stride + row];
    const auto d = numerics::swiglu_gradient(kind, numerics::round_bf16(d_act), g, u, __ldg(sigma + g));
    d_gate[token * d_gate_stride + row] = d.gate;
    d_up[token * d_up_stride + row] = d.up;
  }
};

}  // namespace samebits::engine::cuda::stream
