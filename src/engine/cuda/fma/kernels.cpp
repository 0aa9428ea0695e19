#include "engine/cuda/fma/kernels.hpp"

#include <algorithm>
#include <limits>

#include "engine/cuda/fma/finish.hpp"
#include "gpu/device_scope.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {
namespace {

// 16 bytes at a time along the unit stride, `lines` of them.
bool aligned(const Operand& operand) {
  const bool columns = operand.k_stride != 1;
  if (columns && operand.outer_stride != 1) return false;
  const std::int64_t stride = columns ? operand.k_stride : operand.outer_stride;
  return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && stride > 0 &&
         (stride % 8 == 0 || (!columns && operand.outer == 1));
}

constexpr std::int64_t kMostInt = std::numeric_limits<int>::max() / 4;

bool streams(const Contraction& problem) {
  return kHasCopyEngine && problem.left.k_stride == 1 && problem.left.outer <= kMostStreamed &&
         aligned(problem.left) && aligned(problem.right) && problem.k <= kMostInt &&
         problem.right.outer <= kMostInt && problem.leaves->count() > 0 &&
         problem.leaves->count() <= FmaLeafList::kMost;
}

bool alike(const Contraction& a, const Contraction& b) {
  return a.right.k_stride == b.right.k_stride && a.right.outer_stride == b.right.outer_stride &&
         a.left.outer_stride == b.left.outer_stride && a.right.outer == b.right.outer;
}

Operand from_row(Operand operand, std::int64_t row, std::int64_t rows) {
  operand.data += row * operand.outer_stride;
  operand.outer = rows;
  return operand;
}

Target from_row(Target target, std::int64_t row) {
  target.data = static_cast<std::byte*>(target.data) + row * target.row_stride * (target.f32 ? 4 : 2);
  return target;
}

View from_row(const View& view, std::int64_t row, std::int64_t rows) {
  return view.slice_rows(row, row + rows);
}

StreamProblem stream_problem(const Contraction& problem) {
  StreamProblem out;
  out.x[0] = out.x[1] = problem.left;
  out.weight[0] = out.weight[1] = problem.right;
  out.bf16_nodes = problem.bf16_nodes;
  out.k = static_cast<int>(problem.k);
  return out;
}

TilesProblem tiles_problem(const Contraction& first, const Contraction& second) {
  TilesProblem out;
  out.left[0] = first.left, out.left[1] = second.left;
  out.right[0] = first.right, out.right[1] = second.right;
  out.target[0] = first.target, out.target[1] = second.target;
  out.bf16_nodes = first.bf16_nodes;
  out.k = static_cast<int>(first.k);
  out.leaves = first.leaves;
  return out;
}

}  // namespace

bool Kernels::Chosen::operator==(const Chosen& other) const {
  return tokens == other.tokens && outer == other.outer && k == other.k && leaves == other.leaves &&
         levels == other.levels && lanes == other.lanes && columns == other.columns &&
         gate_up == other.gate_up;
}

Kernels::Kernels(const Problem& problem, int device, int multiprocessors, int levels)
    : multiprocessors_(multiprocessors) {
  const DeviceScope scope(device);
  if constexpr (kHasCopyEngine) {
    prepare_stream_rows();
    prepare_stream_columns();
    prepare_stream_gate_up();
  }
  prepare_tiles();
  const bool bf16 = problem.contract.node == Precision::bf16;
  const std::int64_t hidden = problem.hidden.length, held = problem.intermediate_held;
  const std::int64_t tokens = std::min<std::int64_t>(kStreamTokens, problem.rank_tokens);
  if constexpr (kHasCopyEngine)
    nodes_ = DeviceBuffer(device, static_cast<std::size_t>(kMostSegmentNodes * (problem.backward ? 2 : 1) *
                                                           tokens * hidden * (bf16 ? 2 : 4)));
  const auto across = [](std::int64_t outer) { return (outer + kTileSide - 1) / kTileSide; };
  const std::int64_t wide = across(std::max(hidden, held));
  const std::int64_t tall =
      problem.backward ? std::max(wide, across(problem.rank_tokens)) : across(problem.rank_tokens);
  const auto slots = static_cast<int>(std::min<std::int64_t>(tiles_slots(multiprocessors), 2 * wide * tall));
  tiles_pending_ = {nullptr, slots, levels + 1};
  pending_ = DeviceBuffer(device, tiles_pending_bytes(bf16, slots, tiles_pending_.levels));
  tiles_pending_.data = pending_.data();
}

bool Kernels::plan_stream(const StreamProblem& problem, const Leaves& leaves, StreamLaunch& how) {
  if (!kHasCopyEngine) return false;  // there are no such kernels: a plan would end in no launch
  Chosen wanted;
  wanted.tokens = problem.x[0].outer;
  wanted.outer = problem.weight[0].outer;
  wanted.k = problem.k;
  wanted.leaves = leaves.count();
  wanted.levels = leaves.levels();
  wanted.lanes = problem.lanes;
  wanted.columns = problem.by_columns();
  wanted.gate_up = problem.gate_up;
  auto found = std::find(chosen_.begin(), chosen_.end(), wanted);
  if (found == chosen_.end()) {
    wanted.tuning = choose_stream(problem, leaves, multiprocessors_);
    found = chosen_.begin() + static_cast<std::ptrdiff_t>(next_chosen_);
    *found = wanted;
    next_chosen_ = (next_chosen_ + 1) % chosen_.size();
  }
  how.tuning = found->tuning;
  if (how.tuning.threads() == 0) return false;
  const std::int64_t plane = problem.x[0].outer * problem.weight[0].outer * (problem.bf16_nodes ? 2 : 4);
  for (int segments = how.tuning.segments;; segments /= 2) {
    cut_leaves(leaves, segments, segmented_);
    how.tuning.segments = segmented_.segments;
    if (segmented_.segments == 1 && problem.lanes == 1) break;
    if (segmented_.nodes * problem.lanes * plane <= static_cast<std::int64_t>(nodes_.bytes())) break;
    if (segments == 1) return false;
  }
  how.leaves = &segmented_;
  how.multiprocessors = multiprocessors_;
  return fit_stream(problem, segmented_.levels, how.tuning);
}

bool Kernels::stream_slice(const StreamProblem& problem, const Leaves& leaves, const Target& target,
                           Precision lanes, bool early, cudaStream_t stream) {
  StreamLaunch how;
  if (!plan_stream(problem, leaves, how)) return false;
  how.early = early;
  const std::int64_t rows = problem.x[0].outer, cols = problem.weight[0].outer;
  const bool direct = segmented_.segments == 1 && problem.lanes == 1;
  Target to = target;
  if (!direct) {
    to = {nodes_.data(), !problem.bf16_nodes, cols, 1, rows * cols};
    how.lane_stride = segmented_.nodes * rows * cols;
  }
  if constexpr (kHasCopyEngine) {
    if (problem.by_columns()) {
      stream_columns(problem, to, how, stream);
    } else {
      stream_rows(problem, to, how, stream);
    }
    if (!direct) {
      const SegmentNodes nodes{nodes_.data(), problem.bf16_nodes, static_cast<int>(rows),
                               static_cast<int>(cols), problem.lanes};
      finish_segments(nodes, segmented_, lanes, target, stream);
    }
  }
  return true;
}

bool Kernels::stream_all(const StreamProblem& problem, const Leaves& leaves, const Target& target,
                         Precision lanes, cudaStream_t stream) {
  const bool early = is_after_gate_up_ && after_gate_up_ == stream;
  is_after_gate_up_ = false;
  const std::int64_t tokens = problem.x[0].outer;
  for (std::int64_t first = 0; first < tokens; first += kStreamTokens) {
    const std::int64_t rows = std::min<std::int64_t>(kStreamTokens, tokens - first);
    StreamProblem slice = problem;
    for (Operand& x : slice.x) x = from_row(x, first, rows);
    // A later slice that finds no room does not happen: it needs no more than the first.
    if (!stream_slice(slice, leaves, from_row(target, first), lanes, early && first == 0, stream))
      return false;
  }
  return true;
}

bool Kernels::tiles_all(const TilesProblem& problem, cudaStream_t stream) {
  is_after_gate_up_ = false;
  if (!tiles_serve(problem) || tiles_levels(problem) > tiles_pending_.levels) return false;
  TilesTuning tuning;
  tuning.blocks = tiles_pending_.slots;
  run_tiles(problem, tuning, tiles_pending_, stream);
  return true;
}

Kernels::GateUpDone Kernels::gate_up(const Contraction& gate, const Contraction& up,
                                     const StreamActivation& activation, cudaStream_t stream) {
  is_after_gate_up_ = false;
  const std::int64_t tokens = gate.left.outer;
  if (tokens == 0 || gate.right.outer == 0) return GateUpDone::nothing;
  if (streams(gate) && streams(up) && alike(gate, up) && gate.right.k_stride == 1) {
    StreamProblem problem = stream_problem(gate);
    problem.weight[1] = up.right;
    problem.gate_up = true;
    bool served = true;
    for (std::int64_t first = 0; served && first < tokens; first += kStreamTokens) {
      const std::int64_t rows = std::min<std::int64_t>(kStreamTokens, tokens - first);
      StreamProblem slice = problem;
      slice.x[0] = slice.x[1] = from_row(problem.x[0], first, rows);
      StreamActivation to = activation;
      to.gate = from_row(activation.gate, first, rows);
      to.up = from_row(activation.up, first, rows);
      to.act = from_row(activation.act, first, rows);
      StreamLaunch how;
      served = plan_stream(slice, *gate.leaves, how);
      if constexpr (kHasCopyEngine) {
        if (served) stream_gate_up(slice, to, how, stream);
      }
    }
    if (served) {
      is_after_gate_up_ = true;
      after_gate_up_ = stream;
      return GateUpDone::activated;
    }
  }
  TilesProblem problem = tiles_problem(gate, up);
  problem.count = 2;
  return gate.k <= kMostInt && tiles_all(problem, stream) ? GateUpDone::contracted : GateUpDone::nothing;
}

bool Kernels::contract(const Contraction& problem, cudaStream_t stream) {
  if (problem.left.outer == 0 || problem.right.outer == 0 || problem.leaves->count() == 0) return true;
  if (problem.carried.resumes || problem.carried.stays_open) return false;
  if (streams(problem) &&
      stream_all(stream_problem(problem), *problem.leaves, problem.target, Precision::f32, stream)) {
    return true;
  }
  return problem.k <= kMostInt && tiles_all(tiles_problem(problem, problem), stream);
}

bool Kernels::contract_lanes(const Contraction& gate, const Contraction& up, Precision lanes,
                             cudaStream_t stream) {
  if (gate.left.outer == 0 || gate.right.outer == 0) return true;
  if (gate.leaves->nodes() != 1 || gate.target.f32 || !alike(gate, up)) return false;
  if (streams(gate) && streams(up)) {
    StreamProblem problem = stream_problem(gate);
    problem.x[1] = up.left;
    problem.weight[1] = up.right;
    problem.lanes = 2;
    if (stream_all(problem, *gate.leaves, gate.target, lanes, stream)) return true;
  }
  TilesProblem problem = tiles_problem(gate, up);
  problem.lanes = 2;
  problem.lanes_precision = lanes;
  return gate.k <= kMostInt && tiles_all(problem, stream);
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
