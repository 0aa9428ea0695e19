// Single elements of a block that is too large to evaluate whole.
#include "numerics/bf16.hpp"
#include "reference/element.hpp"
#include "reference/parallel.hpp"
#include "reference/transposed.hpp"

namespace samebits::reference {
namespace {

// One token's whole chain: y, and dx with backward.
void sample_token(const Contract& contract, const Trees& trees, const Inputs& inputs, std::int64_t token,
                  bool backward, int threads, Samples& out) {
  const std::int64_t H = inputs.shape.hidden, I = inputs.shape.intermediate;
  std::vector<Bf16> down_columns;  // [I, H]
  if (backward) down_columns = transposed(inputs.down, H, I, threads);
  std::vector<Bf16> act(I), d_gate(I), d_up(I);
  parallel_for(threads, I, [&](std::int64_t i) {
    HiddenOperands operands{{inputs.x + token * H}, {inputs.gate + i * H}, {inputs.up + i * H}, {}, {}};
    if (backward) {
      operands.dy = {inputs.dy + token * H};
      operands.down_column = {down_columns.data() + i * H};
    }
    const Hidden hidden = hidden_element(contract, trees.hidden, operands);
    act[i] = hidden.act;
    d_gate[i] = hidden.d_gate;
    d_up[i] = hidden.d_up;
  });
  down_columns = {};

  out.y.resize(H);
  parallel_for(threads, H, [&](std::int64_t h) {
    out.y[h] = y_element(contract, trees.intermediate, {act.data()}, {inputs.down + h * I});
  });
  if (!backward) return;

  const std::vector<Bf16> gate_columns = transposed(inputs.gate, I, H, threads);  // [H, I]
  const std::vector<Bf16> up_columns = transposed(inputs.up, I, H, threads);
  out.dx.resize(H);
  parallel_for(threads, H, [&](std::int64_t h) {
    out.dx[h] = dx_element(contract, trees.intermediate, {d_gate.data()}, {gate_columns.data() + h * I},
                           {d_up.data()}, {up_columns.data() + h * I});
  });
}

// Rows of the weight gradients, over all tokens.
void sample_rows(const Contract& contract, const Trees& trees, const Inputs& inputs,
                 std::span<const std::int64_t> rows, int threads, Samples& out) {
  const std::int64_t H = inputs.shape.hidden, I = inputs.shape.intermediate, M = inputs.tokens;
  const auto R = static_cast<std::int64_t>(rows.size());
  std::vector<Bf16> act(R * M), d_gate(R * M), d_up(R * M);  // [R, M]
  parallel_for(threads, R * M, [&](std::int64_t at) {
    const std::int64_t i = rows[at / M], token = at % M;
    const Hidden hidden = hidden_element(contract, trees.hidden,
                                         {.x = {inputs.x + token * H},
                                          .gate_row = {inputs.gate + i * H},
                                          .up_row = {inputs.up + i * H},
                                          .dy = {inputs.dy + token * H},
                                          .down_column = {inputs.down + i, I}});
    act[at] = hidden.act;
    d_gate[at] = hidden.d_gate;
    d_up[at] = hidden.d_up;
  });

  const std::vector<Bf16> x = transposed(inputs.x, M, H, threads),
                          dy = transposed(inputs.dy, M, H, threads);  // [H, M]
  for (auto* tensor : {&out.d_gate, &out.d_up, &out.d_down}) tensor->resize(R * H);
  parallel_for(threads, R * H, [&](std::int64_t at) {
    const std::int64_t r = at / H, h = at % H;
    const auto gradient = [&](Vector d_out, Vector in) {
      return numerics::round_bf16(weight_gradient_element(contract, trees.tokens, d_out, in));
    };
    const Vector x_column{x.data() + h * M}, dy_column{dy.data() + h * M};
    out.d_gate[at] = gradient({d_gate.data() + r * M}, x_column);
    out.d_up[at] = gradient({d_up.data() + r * M}, x_column);
    out.d_down[at] = gradient(dy_column, {act.data() + r * M});
  });
}

}  // namespace

Samples evaluate_samples(const Contract& contract, const Trees& trees, const Inputs& inputs,
                         std::int64_t token, std::span<const std::int64_t> rows, bool backward, int threads) {
  Samples out;
  sample_token(contract, trees, inputs, token, backward, threads, out);
  if (backward) sample_rows(contract, trees, inputs, rows, threads, out);
  return out;
}

}  // namespace samebits::reference
