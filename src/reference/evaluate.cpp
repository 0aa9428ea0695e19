// The whole block, every element of every tensor.
#include "numerics/bf16.hpp"
#include "reference/element.hpp"
#include "reference/parallel.hpp"
#include "reference/transposed.hpp"

namespace samebits::reference {

Outputs evaluate(const Contract& contract, const Trees& trees, const Inputs& inputs, bool backward,
                 int threads) {
  const std::int64_t H = inputs.shape.hidden, I = inputs.shape.intermediate, M = inputs.tokens;
  const auto row = [](const std::vector<Bf16>& matrix, std::int64_t cols, std::int64_t r) -> Vector {
    return {matrix.data() + r * cols};
  };
  Outputs out;

  // G, U, A and dA, dG, dU: [M, I].
  std::vector<Bf16> down_columns;  // [I, H]
  for (auto* tensor : {&out.gate, &out.up, &out.act}) tensor->resize(M * I);
  if (backward) {
    for (auto* tensor : {&out.d_act, &out.d_gate_pre, &out.d_up_pre}) tensor->resize(M * I);
    down_columns = transposed(inputs.down, H, I, threads);
  }
  parallel_for(threads, M * I, [&](std::int64_t at) {
    const std::int64_t token = at / I, i = at % I;
    HiddenOperands operands{{inputs.x + token * H}, {inputs.gate + i * H}, {inputs.up + i * H}, {}, {}};
    if (backward) {
      operands.dy = {inputs.dy + token * H};
      operands.down_column = row(down_columns, H, i);
    }
    const Hidden hidden = hidden_element(contract, trees.hidden, operands);
    out.gate[at] = hidden.gate;
    out.up[at] = hidden.up;
    out.act[at] = hidden.act;
    if (!backward) return;
    out.d_act[at] = hidden.d_act;
    out.d_gate_pre[at] = hidden.d_gate;
    out.d_up_pre[at] = hidden.d_up;
  });

  // y: [M, H].
  out.y.resize(M * H);
  parallel_for(threads, M * H, [&](std::int64_t at) {
    out.y[at] = y_element(contract, trees.intermediate, row(out.act, I, at / H), {inputs.down + at % H * I});
  });
  if (!backward) return out;

  // dx: [M, H].
  const std::vector<Bf16> gate_columns = transposed(inputs.gate, I, H, threads);  // [H, I]
  const std::vector<Bf16> up_columns = transposed(inputs.up, I, H, threads);
  out.dx.resize(M * H);
  parallel_for(threads, M * H, [&](std::int64_t at) {
    const std::int64_t token = at / H, h = at % H;
    out.dx[at] = dx_element(contract, trees.intermediate, row(out.d_gate_pre, I, token),
                            row(gate_columns, I, h), row(out.d_up_pre, I, token), row(up_columns, I, h));
  });

  // The weight gradients: [I, H], [I, H], [H, I]. Columns over the tokens: [I, M] and [H, M].
  const std::vector<Bf16> act = transposed(out.act.data(), M, I, threads);
  const std::vector<Bf16> d_gate = transposed(out.d_gate_pre.data(), M, I, threads);
  const std::vector<Bf16> d_up = transposed(out.d_up_pre.data(), M, I, threads);
  const std::vector<Bf16> x = transposed(inputs.x, M, H, threads), dy = transposed(inputs.dy, M, H, threads);
  for (auto* tensor : {&out.d_gate_f32, &out.d_up_f32, &out.d_down_f32}) tensor->resize(I * H);
  for (auto* tensor : {&out.d_gate, &out.d_up, &out.d_down}) tensor->resize(I * H);
  const auto store = [](std::vector<Bf16>& rounded, std::vector<float>& wide, std::int64_t at, float value) {
    rounded[at] = numerics::round_bf16(value);
    wide[at] = value;
  };
  parallel_for(threads, I * H, [&](std::int64_t at) {
    const std::int64_t i = at / H, h = at % H;
    const auto gradient = [&](const std::vector<Bf16>& d_out, std::int64_t o, const std::vector<Bf16>& in,
                              std::int64_t c) {
      return weight_gradient_element(contract, trees.tokens, row(d_out, M, o), row(in, M, c));
    };
    store(out.d_gate, out.d_gate_f32, at, gradient(d_gate, i, x, h));
    store(out.d_up, out.d_up_f32, at, gradient(d_up, i, x, h));
    store(out.d_down, out.d_down_f32, h * I + i, gradient(dy, h, act, i));
  });
  return out;
}

}  // namespace samebits::reference
