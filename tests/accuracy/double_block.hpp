// The block in double, from the same bf16 operands and without any rounding on the way: what accuracy is
// measured against.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/reference.hpp"

namespace samebits::test {

struct DoubleBlock {
  std::vector<double> y, dx;                 // [M, H]
  std::vector<double> d_gate, d_up, d_down;  // [I, H], [I, H], [H, I]
};

// C[m, n] += sum over k of A[m, k] * B[k, n].
inline void multiply_add(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c,
                         std::int64_t m_size, std::int64_t k_size, std::int64_t n_size) {
  for (std::int64_t m = 0; m < m_size; ++m) {
    for (std::int64_t k = 0; k < k_size; ++k) {
      const double factor = a[m * k_size + k];
      for (std::int64_t n = 0; n < n_size; ++n) c[m * n_size + n] += factor * b[k * n_size + n];
    }
  }
}

inline std::vector<double> widened(const reference::Bf16* data, std::int64_t count) {
  std::vector<double> out(count);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(numerics::widen(data[i]));
  return out;
}

inline std::vector<double> transposed(const std::vector<double>& a, std::int64_t rows, std::int64_t cols) {
  std::vector<double> out(a.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) out[c * rows + r] = a[r * cols + c];
  }
  return out;
}

inline DoubleBlock evaluate_in_double(const reference::Inputs& inputs) {
  const std::int64_t H = inputs.shape.hidden, I = inputs.shape.intermediate, M = inputs.tokens;
  const std::vector<double> x = widened(inputs.x, M * H), dy = widened(inputs.dy, M * H);
  const std::vector<double> gate = widened(inputs.gate, I * H), up = widened(inputs.up, I * H);
  const std::vector<double> down = widened(inputs.down, H * I);

  std::vector<double> g(M * I), u(M * I), act(M * I), d_act(M * I), d_g(M * I), d_u(M * I);
  multiply_add(x, transposed(gate, I, H), g, M, H, I);
  multiply_add(x, transposed(up, I, H), u, M, H, I);
  multiply_add(dy, down, d_act, M, H, I);
  for (std::int64_t at = 0; at < M * I; ++at) {
    const double s = 1.0 / (1.0 + std::exp(-g[at]));
    act[at] = g[at] * s * u[at];
    d_u[at] = d_act[at] * g[at] * s;
    d_g[at] = d_act[at] * u[at] * s * (1.0 + g[at] * (1.0 - s));
  }

  DoubleBlock out;
  for (auto* tensor : {&out.y, &out.dx}) tensor->resize(M * H);
  for (auto* tensor : {&out.d_gate, &out.d_up, &out.d_down}) tensor->resize(I * H);
  multiply_add(act, transposed(down, H, I), out.y, M, I, H);
  multiply_add(d_g, gate, out.dx, M, I, H);
  multiply_add(d_u, up, out.dx, M, I, H);
  multiply_add(transposed(d_g, M, I), x, out.d_gate, I, M, H);
  multiply_add(transposed(d_u, M, I), x, out.d_up, I, M, H);
  multiply_add(transposed(dy, M, H), act, out.d_down, H, M, I);
  return out;
}

// |ours - exact| / |exact|, both in the Euclidean norm.
inline double relative_l2(const std::vector<reference::Bf16>& ours, const std::vector<double>& exact) {
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(numerics::widen(ours[i])) - exact[i];
    error += difference * difference;
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace samebits::test
