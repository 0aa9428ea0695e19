#include "engine/cuda/sm90/kernels.hpp"

#include <algorithm>

#include "engine/cuda/sm90/outer.hpp"
#include "engine/cuda/sm90/tensor_map.hpp"
#include "gpu/check.hpp"
#include "gpu/device_scope.hpp"

namespace samebits::engine::cuda::sm90_leaf {
namespace {

constexpr int kMostLevels = 8;  // of pending nodes, that memory is kept for

StreamProblem problem_of(const GateUp& stage, std::int64_t k, const Leaves& leaves) {
  return {{by_rows(stage.gate), by_rows(stage.up)}, {by_rows(stage.x)}, 1, k, &leaves};
}
StreamProblem problem_of(const Down& stage, const Leaves& leaves) {
  return {{by_rows(stage.down)}, {by_rows(stage.act)}, 1, stage.axis.length(), &leaves};
}
StreamProblem problem_of(const DAct& stage, std::int64_t k, const Leaves& leaves) {
  return {{by_cols(stage.down)}, {by_rows(stage.dy)}, 1, k, &leaves};
}
StreamProblem problem_of(const DHidden& stage, const Leaves& leaves) {
  return {{by_cols(stage.gate), by_cols(stage.up)},
          {by_rows(stage.d_gate), by_rows(stage.d_up)},
          2,
          stage.axis.length(),
          &leaves};
}

// What epilogues read and write: neighbouring columns are neighbours in memory.
bool has_packed_rows(const GateUp& stage) {
  return stage.gate_out.rows_packed() && stage.up_out.rows_packed() && stage.act.rows_packed();
}
bool has_packed_rows(const DAct& stage) {
  return stage.gate.rows_packed() && stage.up.rows_packed() && stage.d_gate.rows_packed() &&
         stage.d_up.rows_packed();
}

bool all_k_major(const Operand& first, const Operand& second) {
  return is_k_major(first) && is_k_major(second);
}
bool all_by_columns(const Operand& first, const Operand& second) {
  return first.outer_stride == 1 && second.outer_stride == 1;
}

}  // namespace

Kernels::Kernels(const Problem& problem, const CudaDeviceState& device, int levels)
    : contract_(problem.contract),
      hidden_(problem.hidden.length),
      sigma_(device.sigma(problem.contract.sigma)),
      multiprocessors_(device.multiprocessors()),
      levels_(std::min(levels + 1, kMostLevels)) {  // and the root of dX's first lane
  const DeviceScope scope(device.index());
  tile_device_ = prepare_tiles();
  prepare_outer();
  stream_device_ = prepare_stream();
  wide_device_ = prepare_wide();
  pending_ = DeviceBuffer(device.index(), std::max(tile_pending_bytes(multiprocessors_, levels_),
                                                   stream_pending_bytes(multiprocessors_, levels_)));
  barrier_ = DeviceBuffer(device.index(), kStreamBarrierBytes);
  check(cudaMemset(barrier_.data(), 0, barrier_.bytes()), "clearing the meeting place of blocks");
  check(cudaStreamSynchronize(nullptr),
        "clearing the meeting place of blocks");  // other streams do not wait for it
}

StreamResources Kernels::stream_resources(cudaStream_t stream) const {
  return {stream_device_,
          pending_.as<float>(),
          levels_,
          barrier_.as<unsigned>(),
          contract_.node == Precision::bf16,
          contract_.lanes,
          stream};
}

TileResources Kernels::tile_resources(cudaStream_t stream, bool early) const {
  return {pending_.as<float>(), levels_, tile_device_, stream, early};
}

bool Kernels::is_wide(const TileProblem& problem) const {
  return problem.left[0].outer > kStreamTokens && wide_serves(problem, levels_);
}

void Kernels::store_wide(const TileProblem& problem, const Target& target, cudaStream_t stream) const {
  wide_store(problem, target, choose_wide(problem, wide_device_),
             {pending_.as<float>(), levels_, wide_device_, stream, true});
}

// Tokens are the rows of a tile, weights its columns.
TileProblem Kernels::tiles_of(const StreamProblem& problem) const {
  TileProblem tiles;
  for (int i = 0; i < 2; ++i) {
    tiles.left[i] = problem.token[i];
    tiles.right[i] = problem.weight[i];
  }
  tiles.lanes = problem.lanes;
  tiles.k = problem.k;
  tiles.leaves = problem.leaves;
  tiles.bf16_nodes = contract_.node == Precision::bf16;
  tiles.lanes_precision = contract_.lanes;
  return tiles;
}

bool Kernels::gate_up(const GateUp& stage, const Leaves& hidden, cudaStream_t stream) {
  const StreamProblem problem = problem_of(stage, hidden_, hidden);
  if (stage.act.empty() || !has_packed_rows(stage) || !is_k_major(problem.token[0]) ||
      !all_k_major(problem.weight[0], problem.weight[1]))
    return false;
  if (streams(problem)) {
    stream_gate_up(problem, stage, activation(), stream_resources(stream));
    return true;
  }
  const TileProblem tiles = tiles_of(problem);
  if (!tiles_serve(tiles, levels_)) return false;
  tiles_gate_up(tiles, stage, contract_.swiglu, sigma_,
                choose_tiles(true, stage.act.rows, stage.act.cols, problem.k, tile_device_),
                tile_resources(stream, false));
  return true;
}

bool Kernels::d_act(const DAct& stage, const Leaves& hidden, cudaStream_t stream) {
  const StreamProblem problem = problem_of(stage, hidden_, hidden);
  if (stage.d_up.empty() || !has_packed_rows(stage) || !is_k_major(problem.token[0]) ||
      problem.weight[0].outer_stride != 1)
    return false;
  if (streams(problem)) {
    stream_d_act(problem, stage, activation(), stream_resources(stream));
    return true;
  }
  const TileProblem tiles = tiles_of(problem);
  if (!tiles_serve(tiles, levels_)) return false;
  tiles_d_act(tiles, stage, contract_.swiglu, sigma_,
              choose_tiles(false, stage.d_up.rows, stage.d_up.cols, problem.k, tile_device_),
              tile_resources(stream, false));
  return true;
}

bool Kernels::d_hidden(const DHidden& stage, const Leaves& intermediate, cudaStream_t stream) {
  const StreamProblem problem = problem_of(stage, intermediate);
  if (stage.dx.empty() || !all_k_major(problem.token[0], problem.token[1]) ||
      !all_by_columns(problem.weight[0], problem.weight[1])) {
    return false;
  }
  const TileProblem tiles = tiles_of(problem);
  if (is_wide(tiles)) {
    store_wide(tiles, target_of_view(stage.dx), stream);
    return true;
  }
  if (streams(problem)) {
    stream_store(problem, target_of_view(stage.dx), stream_resources(stream));
    return true;
  }
  if (!stage.dx.rows_packed() || !tiles_serve(tiles, levels_)) return false;
  tiles_store(tiles, target_of_view(stage.dx),
              choose_tiles(false, stage.dx.rows, stage.dx.cols, 2 * problem.k, tile_device_),
              tile_resources(stream, true));
  return true;
}

// Y, a lane of dX or a cover: left are tokens by rows. A weight gradient: both operands by columns.
bool Kernels::contract(const Contraction& problem, cudaStream_t stream) {
  const Operand &left = problem.left, &right = problem.right;
  if (left.outer == 0 || right.outer == 0 || problem.leaves->count() == 0) return false;
  const StreamProblem narrow{{right}, {left}, 1, problem.k, problem.leaves};
  const bool carries = problem.carried.resumes || problem.carried.stays_open;
  const TileProblem tiles = tiles_of(narrow);
  if (!carries && is_wide(tiles)) {
    store_wide(tiles, problem.target, stream);
    return true;
  }
  if (is_k_major(left) && !carries && streams(narrow)) {
    stream_store(narrow, problem.target, stream_resources(stream));
    return true;
  }
  const bool known = is_k_major(left) || (left.outer_stride == 1 && right.outer_stride == 1);
  if (!known || problem.target.col_stride != 1 || !tiles_serve(tiles, levels_)) return false;
  const TileTuning tuning = choose_tiles(false, left.outer, right.outer, problem.k, tile_device_);
  if (!carries && outer_serves(tiles, problem.target)) {
    outer_store(tiles, problem.target, {multiprocessors_, stream, true});
  } else if (carries) {
    if (is_k_major(left)) return false;
    tiles_carry(tiles, problem.target, problem.carried, tuning, tile_resources(stream, true));
  } else {
    tiles_store(tiles, problem.target, tuning, tile_resources(stream, true));
  }
  return true;
}

bool Kernels::gate_up_down(const GateUp& first, const Leaves& hidden, const Down& second,
                           const Leaves& intermediate, const Target& target, cudaStream_t stream) {
  const StreamProblem gate_up = problem_of(first, hidden_, hidden), down = problem_of(second, intermediate);
  if (first.act.empty() || !has_packed_rows(first) || second.down.rows == 0) return false;
  if (!all_k_major(gate_up.weight[0], gate_up.weight[1]) || !is_k_major(down.weight[0])) return false;
  if (!streams(gate_up) || !streams(down)) return false;
  stream_gate_up_down(gate_up, first, down, target, activation(), stream_resources(stream));
  return true;
}

bool Kernels::d_act_hidden(const DAct& first, const Leaves& hidden, const DHidden& second,
                           const Leaves& intermediate, cudaStream_t stream) {
  const StreamProblem d_act = problem_of(first, hidden_, hidden), d_hidden = problem_of(second, intermediate);
  if (first.d_up.empty() || !has_packed_rows(first) || second.dx.empty() || d_act.weight[0].outer_stride != 1)
    return false;
  if (!all_by_columns(d_hidden.weight[0], d_hidden.weight[1]) || !streams(d_act) || !streams(d_hidden))
    return false;
  stream_d_act_hidden(d_act, first, d_hidden, target_of_view(second.dx), activation(),
                      stream_resources(stream));
  return true;
}

}  // namespace samebits::engine::cuda::sm90_leaf
