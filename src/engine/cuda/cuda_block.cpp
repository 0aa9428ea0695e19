#include "engine/cuda/cuda_block.hpp"

#include <algorithm>

#include "engine/cuda/elementwise.hpp"
#include "engine/cuda/plain.hpp"
#include "engine/cuda/tensor_map.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {
namespace {

constexpr std::int64_t kDxTokens = 256;  // of one step of an unfused d_hidden
constexpr int kTileLevels = 8;           // most pending nodes of the fast sm90 kernels

const std::uint16_t* bf16_data(const ConstView& view) { return static_cast<const std::uint16_t*>(view.data); }
cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

}  // namespace

Operand by_rows(const ConstView& view) {
  return {bf16_data(view), view.rows, view.row_stride, view.col_stride};
}
Operand by_cols(const ConstView& view) {
  return {bf16_data(view), view.cols, view.col_stride, view.row_stride};
}
Target target_of_view(const View& view) {
  return {view.data, view.dtype == DType::f32, view.row_stride, view.col_stride, 0};
}

CudaBlock::CudaBlock(const Problem& problem, std::shared_ptr<const CudaDeviceState> device)
    : problem_(problem), device_(std::move(device)) {
  if (problem.contract.leaf != Leaf::fma && problem.contract.leaf != Leaf::sm90) {
    throw Error(ErrorCode::refused,
                "the cuda engine runs contracts whose leaf is fma or sm90; gfx942 runs on the cpu engine");
  }
  for (const numerics::AxisTree* tree : {&problem.hidden, &problem.intermediate, &problem.tokens}) {
    leaves_.reserve(*tree);
    levels_ = std::max(levels_, leaves_.levels());
  }
  levels_ += 1;  // halves round to granules: a shorter axis may be one level deeper
  const int slots = plain_slots(device_->multiprocessors());
  if (is_sm90()) levels_ += 1;  // the root of the first lane
  std::size_t pending = sizeof(float) * static_cast<std::size_t>(slots) * static_cast<std::size_t>(levels_) *
                        kPlainTile * kPlainTile;
  if (is_sm90()) {
    const DeviceScope scope(device_->index());
    prepare_tiles();
    stream_device_ = prepare_stream();
    pending =
        std::max(pending, tile_pending_bytes(device_->multiprocessors(), std::min(levels_, kTileLevels)));
  }
  pending_memory_ = DeviceBuffer(device_->index(), pending);
  if (problem.contract.leaf == Leaf::fma) {
    fma_.emplace(problem, device_->index(), device_->multiprocessors(), levels_);
  }
  if (problem.backward) {
    const auto tokens = static_cast<std::size_t>(std::min(kDxTokens, problem.rank_tokens));
    lane_roots_ = DeviceBuffer(device_->index(),
                               sizeof(float) * 2 * tokens * static_cast<std::size_t>(problem.hidden.length));
  }
}

void CudaBlock::build(const numerics::AxisTree& tree, std::span<const Interval> held) {
  leaves_.build(tree, held);
  if (leaves_.levels() > levels_) throw Error(ErrorCode::internal, "a tree deeper than the plan reserved");
}

Contraction CudaBlock::contraction(const Operand& left, const Operand& right, std::int64_t k,
                                   const Target& target) const {
  return {
      problem_.contract.leaf, problem_.contract.node == Precision::bf16, left, right, k, &leaves_, target};
}

void CudaBlock::contract(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                         cudaStream_t stream) {
  if (left.outer == 0 || right.outer == 0) return;
  if (target.node_stride == 0 && leaves_.nodes() > 1) {
    throw Error(ErrorCode::internal, "a finished tensor was asked of a shard that is no whole axis");
  }
  if (is_k_major(left) ? fast_tokens(left, right, k, target, stream)
                       : fast_d_weight(left, right, k, target, stream)) {
    return;
  }
  const Contraction problem = contraction(left, right, k, target);
  if (fma_ && fma_->contract(problem, stream)) return;
  contract_plain(problem, {pending_memory_.as<float>(), plain_slots(device_->multiprocessors()), levels_},
                 stream);
}

StreamResources CudaBlock::stream_resources(cudaStream_t stream, bool early) const {
  return {stream_device_, pending_memory_.as<float>(), std::min(levels_, kTileLevels), stream, early};
}
TileResources CudaBlock::tile_resources(cudaStream_t stream, bool early) const {
  return {pending_memory_.as<float>(), std::min(levels_, kTileLevels), device_->multiprocessors(), stream,
          early};
}
TileTuning CudaBlock::tile_tuning(std::int64_t rows, std::int64_t cols, bool activation) const {
  return choose_tiles(rows, cols, activation, device_->multiprocessors());
}

bool CudaBlock::fast_tokens(const Operand& tokens, const Operand& weights, std::int64_t k,
                            const Target& target, cudaStream_t stream) {
  if (!is_sm90() || tokens.outer == 0 || weights.outer == 0) return false;
  const bool bf16_nodes = problem_.contract.node == Precision::bf16;
  StreamProblem narrow{{weights}, {tokens}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (stream_serves(narrow, stream_resources(stream, true).levels)) {
    stream_store(narrow, target, stream_resources(stream, true));
    return true;
  }
  const TileProblem wide{{tokens}, {weights}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (target.col_stride != 1 || !is_k_major(tokens) || !tiles_serve(wide, kTileLevels)) return false;
  tiles_store(wide, target, tile_tuning(tokens.outer, weights.outer, false), tile_resources(stream, true));
  return true;
}

bool CudaBlock::fast_d_weight(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                              cudaStream_t stream) {
  if (!is_sm90() || left.outer == 0 || right.outer == 0 || target.col_stride != 1) return false;
  const TileProblem wide{
      {left}, {right}, 1, k, &leaves_, problem_.contract.node == Precision::bf16, problem_.contract.lanes};
  if (left.outer_stride != 1 || right.outer_stride != 1 || !tiles_serve(wide, kTileLevels)) return false;
  tiles_store(wide, target, tile_tuning(left.outer, right.outer, false), tile_resources(stream, true));
  return true;
}

bool CudaBlock::fused_gate_up(const GateUp& stage, cudaStream_t stream) {
  if (!is_sm90() || stage.act.empty()) return false;
  const Operand x = by_rows(stage.x), gate = by_rows(stage.gate), up = by_rows(stage.up);
  const std::int64_t k = problem_.hidden.length;
  const bool bf16_nodes = problem_.contract.node == Precision::bf16;
  const Swiglu kind = problem_.contract.swiglu;
  if (!is_k_major(x) || !is_k_major(gate) || !is_k_major(up) || !stage.act.rows_packed()) return false;
  const StreamProblem narrow{{gate, up}, {x}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (stream_serves(narrow, kTileLevels)) {
    stream_gate_up(narrow, stage, kind, sigma(), stream_resources(stream, false));
    return true;
  }
  const TileProblem wide{{x}, {gate, up}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (!tiles_serve(wide, kTileLevels)) return false;
  tiles_gate_up(wide, stage, kind, sigma(), tile_tuning(x.outer, gate.outer, true),
                tile_resources(stream, false));
  return true;
}

bool CudaBlock::fused_d_act(const DAct& stage, cudaStream_t stream) {
  if (!is_sm90() || stage.d_up.empty()) return false;
  const Operand dy = by_rows(stage.dy), down = by_cols(stage.down);
  const std::int64_t k = problem_.hidden.length;
  const bool bf16_nodes = problem_.contract.node == Precision::bf16;
  const Swiglu kind = problem_.contract.swiglu;
  if (!is_k_major(dy) || down.outer_stride != 1 || !stage.d_up.rows_packed()) return false;
  const StreamProblem narrow{{down}, {dy}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (stream_serves(narrow, kTileLevels)) {
    stream_d_act(narrow, stage, kind, sigma(), stream_resources(stream, false));
    return true;
  }
  const TileProblem wide{{dy}, {down}, 1, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (!tiles_serve(wide, kTileLevels)) return false;
  tiles_d_act(wide, stage, kind, sigma(), tile_tuning(dy.outer, down.outer, false),
              tile_resources(stream, false));
  return true;
}

bool CudaBlock::fused_d_hidden(const DHidden& stage, cudaStream_t stream) {
  if (!is_sm90() || stage.dx.empty()) return false;
  const Operand dg = by_rows(stage.d_gate), du = by_rows(stage.d_up);
  const Operand gate = by_cols(stage.gate), up = by_cols(stage.up);
  const std::int64_t k = stage.axis.length();
  const bool bf16_nodes = problem_.contract.node == Precision::bf16;
  if (gate.outer_stride != 1 || up.outer_stride != 1) return false;
  const StreamProblem narrow{{gate, up}, {dg, du}, 2, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (stream_serves(narrow, kTileLevels)) {
    stream_store(narrow, target_of_view(stage.dx), stream_resources(stream, true));
    return true;
  }
  const TileProblem wide{{dg, du}, {gate, up}, 2, k, &leaves_, bf16_nodes, problem_.contract.lanes};
  if (!stage.dx.rows_packed() || !tiles_serve(wide, kTileLevels)) return false;
  tiles_store(wide, target_of_view(stage.dx), tile_tuning(dg.outer, gate.outer, false),
              tile_resources(stream, true));
  return true;
}

Target CudaBlock::target_of(const CoverView& cover) const {
  return {cover.data, problem_.contract.node == Precision::f32, cover.row_stride, 1, cover.node_stride};
}
Target CudaBlock::target_of(const Sink& sink) const {
  return sink.finishes() ? target_of_view(sink.out) : target_of(sink.cover);
}

void CudaBlock::gate_up(const GateUp& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  const cudaStream_t stream = stream_of(queue);
  const Interval whole{0, problem_.hidden.length};
  build(problem_.hidden, {&whole, 1});
  if (fused_gate_up(stage, stream)) return;
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
  if (fused_d_act(stage, stream)) return;
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
  if (fused_d_hidden(stage, stream)) return;
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
    cuda::finish(problem_.contract, {{&gate, 1}, {&up, 1}, stage.dx.slice_rows(first, last)}, true, stream);
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
  build(stage.tokens, stage.held);
  if (leaves_.count() == 0) {
    if (stage.sink.finishes()) fill_zero(stage.sink.out, stream);
    return;
  }
  contract(by_cols(stage.left), by_cols(stage.right), stage.left.rows, target_of(stage.sink), stream);
}

void CudaBlock::finish(const Finish& stage, Queue queue) {
  const DeviceScope scope(device_->index());
  cuda::finish(problem_.contract, stage, false, stream_of(queue));
}

std::size_t CudaBlock::workspace_bytes() const {
  return pending_memory_.bytes() + lane_roots_.bytes() + (fma_ ? fma_->workspace_bytes() : 0);
}

}  // namespace samebits::engine::cuda
