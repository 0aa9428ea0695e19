// Section 4 of the contract, one element of one named tensor at a time, from the operands of its
// contractions.
#pragma once

#include "reference/reference.hpp"

namespace samebits::reference {

// What the block holds for one token and one position of I.
struct Hidden {
  Bf16 gate = 0, up = 0, act = 0;        // G, U, A
  Bf16 d_act = 0, d_gate = 0, d_up = 0;  // dA, dG, dU; 0 without backward
};

// Rows of x and dy, of gate and up, and the column of down: [H] each. Without `dy` forward only.
struct HiddenOperands {
  Vector x, gate_row, up_row;
  Vector dy, down_column;
};
Hidden hidden_element(const Contract& contract, const AxisTree& tree, const HiddenOperands& operands);

// From a row of A and a row of down: [I] each.
Bf16 y_element(const Contract& contract, const AxisTree& tree, Vector act, Vector down_row);

// From rows of dG and dU and columns of gate and up: [I] each.
Bf16 dx_element(const Contract& contract, const AxisTree& tree, Vector d_gate, Vector gate_column,
                Vector d_up, Vector up_column);

// From columns over all tokens, as it is asked for in f32. In bf16 it is round_bf16 of this.
float weight_gradient_element(const Contract& contract, const AxisTree& tree, Vector d_out, Vector in);

}  // namespace samebits::reference
