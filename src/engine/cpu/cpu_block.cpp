#include "engine/cpu/cpu_block.hpp"

#include <algorithm>

#include "engine/cpu/elementwise.hpp"
#include "engine/fp_environment.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cpu {
namespace {

constexpr std::int64_t kDxTokens = 256;  // of one step of d_hidden

const std::uint16_t* bf16_data(const ConstView& view) { return static_cast<const std::uint16_t*>(view.data); }

// A matrix whose rows are the outer index, or whose columns are.
Source by_rows(const ConstView& view) { return {bf16_data(view), view.row_stride, view.col_stride}; }
Source by_cols(const ConstView& view) { return {bf16_data(view), view.col_stride, view.row_stride}; }

Target target_of_view(const View& view) {
  return {view.data, view.dtype == DType::f32, view.row_stride, view.col_stride, 0};
}

// Rows and lanes of the problem are columns and rows of the target.
Target transposed(Target target) {
  std::swap(target.row_stride, target.lane_stride);
  return target;
}

}  // namespace

CpuBlock::CpuBlock(const Problem& problem, const KernelTable& kernels, std::shared_ptr<ThreadPool> pool)
    : problem_(problem),
      kernels_(kernels),
      pool_(std::move(pool)),
      scratch_(static_cast<std::size_t>(pool_->threads())) {
  program_.reserve(problem.hidden);
  program_.reserve(problem.intermediate);
  program_.reserve(problem.tokens);
  if (problem.backward) {
    lane_root_count_ =
        static_cast<std::size_t>(std::min(kDxTokens, problem.rank_tokens) * 2 * problem.hidden.length);
    lane_roots_ = std::make_unique_for_overwrite<float[]>(lane_root_count_);
  }
  sigma_table(problem.contract.sigma);
}

void CpuBlock::build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends) {
  program_.build(tree, held, numerics::granule_of(problem_.contract.leaf) > 1, open_ends);
}

void CpuBlock::contract_rows(const Source& rows, std::int64_t row_count, const Source& lanes,
                             std::int64_t lane_count, const Target& target, const OpenLeaf& open) {
  if (row_count == 0 || lane_count == 0) return;
  if (target.node_stride == 0 && program_.nodes() > 1) {
    throw Error(ErrorCode::internal, "a finished tensor was asked of a shard that is no whole axis");
  }
  const ContractionProblem contraction{problem_.contract.leaf,
                                       problem_.contract.node == Precision::bf16,
                                       rows,
                                       row_count,
                                       lanes,
                                       lane_count,
                                       &program_,
                                       target,
                                       open.data,
                                       open.row_stride,
                                       1};
  contract(contraction, choose_tuning(contraction, kernels_, pool_->threads()), kernels_, *pool_, scratch_);
}

Target CpuBlock::target_of(const CoverView& cover) const {
  return {cover.data, problem_.contract.node == Precision::f32, cover.row_stride, 1, cover.node_stride};
}

Target CpuBlock::target_of(const Sink& sink) const {
  return sink.finishes() ? target_of_view(sink.out) : target_of(sink.cover);
}

void CpuBlock::gate_up(const GateUp& stage, Queue) {
  const FpEnvironment environment;
  const Interval whole{0, problem_.hidden.length};
  build(problem_.hidden, {&whole, 1});
  // Weights are rows: each is prepared once and broadcast against the tokens.
  contract_rows(by_rows(stage.gate), stage.gate.rows, by_cols(stage.x), stage.x.rows,
                transposed(target_of_view(stage.gate_out)));
  contract_rows(by_rows(stage.up), stage.up.rows, by_cols(stage.x), stage.x.rows,
                transposed(target_of_view(stage.up_out)));
  activate(problem_.contract, stage.gate_out, stage.up_out, stage.act, *pool_);
}

void CpuBlock::down(const Down& stage, Queue) {
  const FpEnvironment environment;
  build(problem_.intermediate, {&stage.axis, 1});
  contract_rows(by_rows(stage.down), stage.down.rows, by_cols(stage.act), stage.act.rows,
                transposed(target_of(stage.sink)));
}

void CpuBlock::d_act(const DAct& stage, Queue) {
  const FpEnvironment environment;
  const Interval whole{0, problem_.hidden.length};
  build(problem_.hidden, {&whole, 1});
  // dA lies where dU will: each element is read before it is overwritten.
  contract_rows(by_rows(stage.dy), stage.dy.rows, by_rows(stage.down), stage.down.cols,
                target_of_view(stage.d_up));
  activate_gradient(problem_.contract, stage.d_up, stage.gate, stage.up, stage.d_gate, stage.d_up, *pool_);
}

void CpuBlock::d_hidden(const DHidden& stage, Queue) {
  const FpEnvironment environment;
  build(problem_.intermediate, {&stage.axis, 1});
  const std::int64_t cols = stage.dx.cols;
  for (std::int64_t first = 0; first < stage.dx.rows; first += kDxTokens) {
    const std::int64_t last = std::min(stage.dx.rows, first + kDxTokens), rows = last - first;
    float* const gate_roots = lane_roots_.get();
    float* const up_roots = gate_roots + rows * cols;
    contract_rows(by_rows(stage.d_gate.slice_rows(first, last)), rows, by_rows(stage.gate), cols,
                  {gate_roots, true, cols, 1, 0});
    contract_rows(by_rows(stage.d_up.slice_rows(first, last)), rows, by_rows(stage.up), cols,
                  {up_roots, true, cols, 1, 0});
    const FinishNode gate{gate_roots, cols, 0}, up{up_roots, cols, 0};
    cpu::finish(problem_.contract, {{&gate, 1}, {&up, 1}, stage.dx.slice_rows(first, last)}, true, *pool_);
  }
}

void CpuBlock::d_hidden_lane(const DHiddenLane& stage, Queue) {
  const FpEnvironment environment;
  build(problem_.intermediate, {&stage.axis, 1});
  contract_rows(by_rows(stage.d), stage.d.rows, by_rows(stage.weight), stage.weight.cols,
                target_of(stage.cover));
}

void CpuBlock::d_weight(const DWeight& stage, Queue) {
  const FpEnvironment environment;
  build(stage.tokens, stage.held, stage.open.data != nullptr);
  if (program_.chunks().empty() && !stage.sink.finishes()) return;  // no tokens: an empty cover
  contract_rows(by_cols(stage.left), stage.left.cols, by_rows(stage.right), stage.right.cols,
                target_of(stage.sink), stage.open);
}

void CpuBlock::finish(const Finish& stage, Queue) {
  const FpEnvironment environment;
  cpu::finish(problem_.contract, stage, false, *pool_);
}

std::size_t CpuBlock::workspace_bytes() const {
  return scratch_.size() * Scratch::bytes() + program_.bytes() + lane_root_count_ * sizeof(float);
}

}  // namespace samebits::engine::cpu
