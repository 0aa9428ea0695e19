#include "reference/element.hpp"

#include "numerics/sigma.hpp"
#include "numerics/swiglu.hpp"

namespace samebits::reference {

using numerics::round_bf16;

Hidden hidden_element(const Contract& contract, const AxisTree& tree, const HiddenOperands& operands) {
  Hidden out;
  out.gate = round_bf16(root(contract, tree, operands.x, operands.gate_row));
  out.up = round_bf16(root(contract, tree, operands.x, operands.up_row));
  const float s = numerics::sigma(contract.sigma, out.gate);
  out.act = numerics::swiglu(contract.swiglu, out.gate, out.up, s);
  if (operands.dy.data == nullptr) return out;

  out.d_act = round_bf16(root(contract, tree, operands.dy, operands.down_column));
  const auto gradient = numerics::swiglu_gradient(contract.swiglu, out.d_act, out.gate, out.up, s);
  out.d_gate = gradient.gate;
  out.d_up = gradient.up;
  return out;
}

Bf16 y_element(const Contract& contract, const AxisTree& tree, Vector act, Vector down_row) {
  return round_bf16(root(contract, tree, act, down_row));
}

Bf16 dx_element(const Contract& contract, const AxisTree& tree, Vector d_gate, Vector gate_column,
                Vector d_up, Vector up_column) {
  return numerics::add_lanes(contract.lanes, root(contract, tree, d_gate, gate_column),
                             root(contract, tree, d_up, up_column));
}

float weight_gradient_element(const Contract& contract, const AxisTree& tree, Vector d_out, Vector in) {
  return numerics::canonical_f32(root(contract, tree, d_out, in));
}

}  // namespace samebits::reference
