#include "engine/cuda/cuda_block.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cuda/elementwise.hpp"
#include "engine/cuda/finish.hpp"
#include "engine/cuda/plain.hpp"
#include "gpu/device_scope.hpp"
#include "numerics/contract_text.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::SAMEBITS_GPU {
namespace {

constexpr std::int64_t kDxTokens = 256;  // of one step of an unfused d_hidden

cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

}  // namespace

CudaBlock::CudaBlock(const Problem& problem, std::shared_ptr<const CudaDeviceState> device)
    : problem_(problem), device_(std::move(device)) {
  if (problem.contract.leaf != Leaf::fma && problem.contract.leaf != kMatrixLeaf) {
    throw Error(ErrorCode::refused, fmt::format("the {} engine runs contracts whose leaf is fma or {}; {}",
                                                kEngineName, numerics::to_text(kMatrixLeaf), kOtherLeaf));
  }
  for (const numerics::AxisTree* tree : {&problem.hidden, &problem.intermediate, &problem.tokens}) {
    if (tree == &problem.tokens && !problem.backward) continue;  // forward contracts over no tokens
    leaves_.reserve(*tree);
    levels_ = std::max(levels_, leaves_.levels());
  }
  levels_ += 1;  // halves round to granules: a shorter axis may be one level deeper
  if (problem.contract.leaf == Leaf::fma || !kMatrixServesAll) {
    const int slots = plain_slots(device_->multiprocessors());
    pending_memory_ =
        DeviceBuffer(device_->index(), sizeof(float) * static_cast<std::size_t>(slots) *
                                           static_cast<std::size_t>(levels_) * kPlainTile * kPlainTile);
  }
  if (problem.contract.leaf == Leaf::fma) {
    fma_.emplace(problem, device_->index(), device_->multiprocessors(), levels_);
  } else {
    matrix_.emplace(problem, *device_, levels_);
    next_leaves_.reserve(problem.intermediate);
  }
  if (problem.backward) {
    const auto tokens = static_cast<std::size_t>(std::min(kDxTokens, problem.rank_tokens));
    lane_roots_ = DeviceBuffer(device_->index(),
                               sizeof(float) * 2 * tokens * static_cast<std::size_t>(problem.hidden.length));
  }
}

void CudaBlock::build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends) {
  leaves_.build(tree, held, open_ends);
  if (leaves_.levels() > levels_) throw Error(ErrorCode::internal, "a tree deeper than the plan reserved");
}

Contraction CudaBlock::contraction(const Operand& left, const Operand& right, std::int64_t k,
                                   const Target& target) const {
  return {
      problem_.contract.leaf, problem_.contract.node == Precision::bf16, left, right, k, &leaves_, target};
}

void CudaBlock::contract(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                         cudaStream_t stream, const OpenLeaf& open) {
  if (left.outer == 0 || right.outer == 0) return;
  if (target.node_stride == 0 && leaves_.nodes() > 1) {
    throw Error(ErrorCode::internal, "a finished tensor was asked of a shard that is no whole axis");
  }
  Contraction problem = contraction(left, right, k, target);
  problem.carried = {open.data, open.row_stride, leaves_.resumes(), leaves_.stays_open()};
  if (fma_ && fma_->contract(problem, stream)) return;
  if (matrix_ && matrix_->contract(problem, stream)) return;
  contract_plain(problem, {pending_memory_.as<float>(), plain_slots(device_->multiprocessors()), levels_},
                 stream);
}

Target CudaBlock::target_of(const CoverView& cover) const {
  Target target{cover.data, problem_.contract.node == Precision::f32, cover.row_stride, 1, cover.node_stride};
  if (cover.slices.empty()) return target;
  // Shifts are counted from where row 0 of the first slice lies, in elements.
  target.data = cover.slices.front().data;
  const auto size = static_cast<std::int64_t>(size_of(node_dtype(problem_.contract)));
  std::int64_t first = 0;
  for (const CoverSlice& slice : cover.slices) {
    const auto apart =
        reinterpret_cast<std::intptr_t>(slice.data) - reinterpret_cast<std::intptr_t>(target.data);
    target.first[target.slices] = static_cast<int>(first);
    target.shift[target.slices] = apart / size - first * cover.row_stride;
    ++target.slices;
    first = slice.end;
  }
  return target;
}

Target CudaBlock::target_of(const Sink& sink) const {
  return sink.finishes() ? target_of_view(sink.out) : target_of(sink.cover);
}

bool CudaBlock::takes_slices() const { return matrix_ && kMatrixTakesSlices; }

void CudaBlock::gate_up(const GateUp& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  const Interval whole{0, problem_.hidden.length};
  build(problem_.hidden, {&whole, 1});
  if (matrix_ && matrix_->gate_up(stage, leaves_, stream)) return;
  if (fma_) {
    using Done = fma_leaf::Kernels::GateUpDone;
    const Operand x = by_rows(stage.x);
    const Done done = fma_->gate_up(
        contraction(x, by_rows(stage.gate), whole.length(), target_of_view(stage.gate_out)),
        contraction(x, by_rows(stage.up), whole.length(), target_of_view(stage.up_out)),
        {stage.gate_out, stage.up_out, stage.act, stage.keep, problem_.contract.swiglu, sigma()}, stream);
    if (done == Done::activated) return;
    if (done == Done::contracted) {
      return activate(problem_.contract, sigma(), stage.gate_out, stage.up_out, stage.act, stream);
    }
  }
  contract(by_rows(stage.x), by_rows(stage.gate), whole.length(), target_of_view(stage.gate_out), stream);
  contract(by_rows(stage.x), by_rows(stage.up), whole.length(), target_of_view(stage.up_out), stream);
  activate(problem_.contract, sigma(), stage.gate_out, stage.up_out, stage.act, stream);
}

void CudaBlock::down(const Down& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  build(problem_.intermediate, {&stage.axis, 1});
  if (leaves_.count() == 0 && stage.sink.finishes()) return fill_zero(stage.sink.out, stream);
  contract(by_rows(stage.act), by_rows(stage.down), stage.axis.length(), target_of(stage.sink), stream);
}

void CudaBlock::d_act(const DAct& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  const Interval whole{0, problem_.hidden.length};
  build(problem_.hidden, {&whole, 1});
  if (matrix_ && matrix_->d_act(stage, leaves_, stream)) return;
  // dA lies where dU will: each element is read before it is overwritten.
  contract(by_rows(stage.dy), by_cols(stage.down), whole.length(), target_of_view(stage.d_up), stream);
  activate_gradient(problem_.contract, sigma(), stage.d_up, stage.gate, stage.up, stage.d_gate, stage.d_up,
                    stream);
}

void CudaBlock::d_hidden(const DHidden& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  build(problem_.intermediate, {&stage.axis, 1});
  if (leaves_.count() == 0) return fill_zero(stage.dx, stream);
  if (matrix_ && matrix_->d_hidden(stage, leaves_, stream)) return;
  const std::int64_t cols = stage.dx.cols, k = stage.axis.length();
  if (fma_) {
    const Target dx = target_of_view(stage.dx);
    if (fma_->contract_lanes(contraction(by_rows(stage.d_gate), by_cols(stage.gate), k, dx),
                             contraction(by_rows(stage.d_up), by_cols(stage.up), k, dx),
                             problem_.contract.lanes, stream)) {
      return;
    }
  }
  for (std::int64_t first = 0; first < stage.dx.rows; first += kDxTokens) {
    const std::int64_t last = std::min(stage.dx.rows, first + kDxTokens), rows = last - first;
    float* const gate_roots = lane_roots_.as<float>();
    float* const up_roots = gate_roots + rows * cols;
    contract(by_rows(stage.d_gate.slice_rows(first, last)), by_cols(stage.gate), k,
             {gate_roots, true, cols, 1, 0}, stream);
    contract(by_rows(stage.d_up.slice_rows(first, last)), by_cols(stage.up), k, {up_roots, true, cols, 1, 0},
             stream);
    const FinishNode gate{gate_roots, cols, 0}, up{up_roots, cols, 0};
    SAMEBITS_GPU::finish(problem_.contract, {{&gate, 1}, {&up, 1}, stage.dx.slice_rows(first, last)}, true,
                         stream);
  }
}

void CudaBlock::d_hidden_lane(const DHiddenLane& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  build(problem_.intermediate, {&stage.axis, 1});
  contract(by_rows(stage.d), by_cols(stage.weight), stage.axis.length(), target_of(stage.cover),
           stream_of(queue));
}

void CudaBlock::d_weight(const DWeight& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  build(stage.tokens, stage.held, stage.open.data != nullptr);
  if (leaves_.count() == 0) {
    if (stage.sink.finishes()) fill_zero(stage.sink.out, stream);
    return;
  }
  contract(by_cols(stage.left), by_cols(stage.right), stage.left.rows, target_of(stage.sink), stream,
           stage.open);
}

void CudaBlock::finish(const Finish& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  SAMEBITS_GPU::finish(problem_.contract, stage, false, stream_of(queue));
}

void CudaBlock::gate_up_down(const GateUp& first, const Down& second, Queue queue) {
  if (matrix_) {
    const DeviceScope scope(device_->index());
    const Interval whole{0, problem_.hidden.length};
    build(problem_.hidden, {&whole, 1});
    next_leaves_.build(problem_.intermediate, {&second.axis, 1});
    if (matrix_->gate_up_down(first, leaves_, second, next_leaves_, target_of(second.sink), stream_of(queue)))
      return;
  }
  Block::gate_up_down(first, second, queue);
}

void CudaBlock::d_act_hidden(const DAct& first, const DHidden& second, Queue queue) {
  if (matrix_) {
    const DeviceScope scope(device_->index());
    const Interval whole{0, problem_.hidden.length};
    build(problem_.hidden, {&whole, 1});
    next_leaves_.build(problem_.intermediate, {&second.axis, 1});
    if (matrix_->d_act_hidden(first, leaves_, second, next_leaves_, stream_of(queue))) return;
  }
  Block::d_act_hidden(first, second, queue);
}

std::size_t CudaBlock::workspace_bytes() const {
  return pending_memory_.bytes() + lane_roots_.bytes() + (fma_ ? fma_->workspace_bytes() : 0) +
         (matrix_ ? matrix_->workspace_bytes() : 0);
}

}  // namespace samebits::engine::SAMEBITS_GPU
