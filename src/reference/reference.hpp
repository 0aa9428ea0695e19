// The contract evaluated literally, one element at a time, written to be read. The oracle of every test.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "numerics/bf16.hpp"
#include "numerics/tree.hpp"
#include "samebits/contract.hpp"
#include "samebits/layout.hpp"

namespace samebits::reference {

using numerics::AxisTree;
using numerics::Bf16;

// Strided access to one operand of a contraction: element k is data[k * stride].
struct Vector {
  const Bf16* data = nullptr;
  std::int64_t stride = 1;
};

// The node of `tree` that spans [begin, end), or the root: f32, rounded as nodes are.
float node_value(const Contract& contract, const AxisTree& tree, numerics::TreeNode node, Vector a, Vector b);
float root(const Contract& contract, const AxisTree& tree, Vector a, Vector b);

// The trees of the three axes; a test may move a split in them.
struct Trees {
  AxisTree hidden;
  AxisTree intermediate;
  AxisTree tokens;
};
Trees trees_of(const Contract& contract, const Shape& shape, std::int64_t tokens);

// Row-major, packed. gate and up [I, H], down [H, I], x and dy [M, H].
struct Inputs {
  Shape shape;
  std::int64_t tokens = 0;
  const Bf16* x = nullptr;
  const Bf16* dy = nullptr;
  const Bf16* gate = nullptr;
  const Bf16* up = nullptr;
  const Bf16* down = nullptr;
};

struct Outputs {
  std::vector<Bf16> y, dx;                                       // [M, H]
  std::vector<Bf16> d_gate, d_up, d_down;                        // [I, H], [I, H], [H, I]
  std::vector<float> d_gate_f32, d_up_f32, d_down_f32;           // the same gradients asked for as f32
  std::vector<Bf16> gate, up, act, d_act, d_gate_pre, d_up_pre;  // [M, I]: G, U, A, dA, dG, dU
};
// Threads share the elements; results do not depend on their number.
Outputs evaluate(const Contract& contract, const Trees& trees, const Inputs& inputs, bool backward = true,
                 int threads = 1);

// Single elements of a block too large to evaluate whole: one token's y and dx, and rows of I of the weight
// gradients (d_gate and d_up rows `i`, d_down columns `i`). Threads share the work; results do not depend on
// their number.
struct Samples {
  std::vector<Bf16> y, dx;                 // [H] of the token
  std::vector<Bf16> d_gate, d_up, d_down;  // [rows.size(), H], d_down transposed
};
Samples evaluate_samples(const Contract& contract, const Trees& trees, const Inputs& inputs,
                         std::int64_t token, std::span<const std::int64_t> rows, bool backward, int threads);

}  // namespace samebits::reference
