#include "engine/cpu/elementwise.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "engine/fp_environment.hpp"
#include "numerics/leaf.hpp"
#include "numerics/sigma.hpp"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cpu {
namespace {

using numerics::Bf16;

constexpr std::int64_t kBlock = 256;  // columns of one task's inner loop
constexpr int kStack = numerics::kMaxTreeDepth + 1;

// Pointer to element (row, col); `Element` is Bf16 or float, maybe const.
template <class Element, class AnyView>
Element* at(const AnyView& view, std::int64_t row, std::int64_t col) {
  return static_cast<Element*>(view.data) + row * view.row_stride + col * view.col_stride;
}

// body(row, col0, col1) over blocks of columns.
template <class Body>
void for_each_block(std::int64_t rows, std::int64_t cols, ThreadPool& pool, const Body& body) {
  const std::int64_t blocks = (cols + kBlock - 1) / kBlock;
  const std::int64_t rows_a_task = std::max<std::int64_t>(1, 16 / std::max<std::int64_t>(blocks, 1));
  pool.run((rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task, int) {
    const std::int64_t last = std::min(rows, (task + 1) * rows_a_task);
    for (std::int64_t row = task * rows_a_task; row < last; ++row) {
      for (std::int64_t col = 0; col < cols; col += kBlock) body(row, col, std::min(cols, col + kBlock));
    }
  });
}

void load_node(const Contract& contract, bool f32_nodes, const FinishNode& node, std::int64_t row,
               std::int64_t col0, std::int64_t count, float* out) {
  const std::int64_t base = row * node.row_stride + col0;
  if (node.accumulators) {
    const float* const from = static_cast<const float*>(node.data) + base;
    for (std::int64_t i = 0; i < count; ++i) out[i] = numerics::node(contract.node, from[i]);
  } else if (f32_nodes || contract.node == Precision::f32) {
    std::copy_n(static_cast<const float*>(node.data) + base, count, out);
  } else {
    const Bf16* const from = static_cast<const Bf16*>(node.data) + base;
    for (std::int64_t i = 0; i < count; ++i) out[i] = numerics::widen(from[i]);
  }
}

// The root of each of `count` columns: a stack machine over the cover nodes, left in stack[0].
using Stack = std::array<std::array<float, kBlock>, kStack>;
void finish_lane(const Contract& contract, std::span<const FinishNode> nodes, bool f32_nodes,
                 std::int64_t row, std::int64_t col0, std::int64_t count, Stack& stack) {
  std::size_t height = 0;
  if (nodes.empty()) std::fill_n(stack[0].data(), count, 0.0f);
  for (const FinishNode& node : nodes) {
    load_node(contract, f32_nodes, node, row, col0, count, stack[height++].data());
    for (int m = 0; m < node.merges; ++m) {
      --height;
      float* const lower = stack[height - 1].data();
      const float* const upper = stack[height].data();
      for (std::int64_t i = 0; i < count; ++i) lower[i] = numerics::node(contract.node, lower[i] + upper[i]);
    }
  }
}

template <class Table>
std::unique_ptr<Table> make_sigma_table(Sigma kind) {
  const FpEnvironment environment;  // the table outlives the caller's
  auto table = std::make_unique<Table>();
  for (std::uint32_t g = 0; g < table->size(); ++g) (*table)[g] = numerics::sigma(kind, static_cast<Bf16>(g));
  return table;
}

}  // namespace

const float* sigma_table(Sigma kind) {
  using Table = std::array<float, 65536>;
  static const std::unique_ptr<const Table> exact = make_sigma_table<Table>(Sigma::exact);
  static const std::unique_ptr<const Table> cuda = make_sigma_table<Table>(Sigma::cuda);
  return (kind == Sigma::exact ? exact : cuda)->data();
}

void activate(const Contract& contract, const ConstView& gate, const ConstView& up, const View& act,
              ThreadPool& pool) {
  const float* const sigma = sigma_table(contract.sigma);
  for_each_block(gate.rows, gate.cols, pool, [&](std::int64_t row, std::int64_t col0, std::int64_t col1) {
    for (std::int64_t col = col0; col < col1; ++col) {
      const Bf16 g = *at<const Bf16>(gate, row, col);
      *at<Bf16>(act, row, col) =
          numerics::swiglu(contract.swiglu, g, *at<const Bf16>(up, row, col), sigma[g]);
    }
  });
}

void activate_gradient(const Contract& contract, const ConstView& d_act, const ConstView& gate,
                       const ConstView& up, const View& d_gate, const View& d_up, ThreadPool& pool) {
  const float* const sigma = sigma_table(contract.sigma);
  for_each_block(gate.rows, gate.cols, pool, [&](std::int64_t row, std::int64_t col0, std::int64_t col1) {
    for (std::int64_t col = col0; col < col1; ++col) {
      const Bf16 g = *at<const Bf16>(gate, row, col);
      const auto d = numerics::swiglu_gradient(contract.swiglu, *at<const Bf16>(d_act, row, col), g,
                                               *at<const Bf16>(up, row, col), sigma[g]);
      *at<Bf16>(d_gate, row, col) = d.gate;
      *at<Bf16>(d_up, row, col) = d.up;
    }
  });
}

void finish(const Contract& contract, const Finish& stage, bool f32_nodes, ThreadPool& pool) {
  const View& out = stage.out;
  for_each_block(out.rows, out.cols, pool, [&](std::int64_t row, std::int64_t col0, std::int64_t col1) {
    Stack gate, up;
    const std::int64_t count = col1 - col0;
    finish_lane(contract, stage.nodes, f32_nodes, row, col0, count, gate);
    if (!stage.up.empty()) finish_lane(contract, stage.up, f32_nodes, row, col0, count, up);
    for (std::int64_t i = 0; i < count; ++i) {
      if (out.dtype == DType::f32) {
        *at<float>(out, row, col0 + i) = numerics::canonical_f32(gate[0][i]);
      } else if (stage.up.empty()) {
        *at<Bf16>(out, row, col0 + i) = numerics::round_bf16(gate[0][i]);
      } else {
        *at<Bf16>(out, row, col0 + i) = numerics::add_lanes(contract.lanes, gate[0][i], up[0][i]);
      }
    }
  });
}

}  // namespace samebits::engine::cpu
