// Launches of the stream kernel; stream_*.cu instantiate them.
#pragma once

#include <string>

#include "engine/cuda/built_kernels.hpp"
#include "engine/cuda/fma/maps.hpp"
#include "engine/cuda/fma/stream.cuh"
#include "engine/cuda/launch.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda::fma_leaf {

template <const auto& kShares, StreamWeights kWeights>
void prepare_shares() {
  constexpr int kBytes = 226 * 1024;
  for_each_built<kShares>([&]<StreamShare kShare>() {
    allow_shared_memory(stream<kShare.tokens, kShare.rows, false, kWeights>, kBytes);
    allow_shared_memory(stream<kShare.tokens, kShare.rows, true, kWeights>, kBytes);
  });
}

template <int kTokens, int kRows, StreamWeights kWeights>
void launch_stream(const StreamProblem& problem, const Target& target, const StreamActivation& activation,
                   const StreamLaunch& how, cudaStream_t stream_handle) {
  const StreamTuning& tuning = how.tuning;
  const auto outer = static_cast<int>(problem.weight[0].outer);
  const int tile = tuning.tile();
  StreamArguments args{};
  // A box has at most 256 lines or columns.
  args.boxes = problem.gate_up ? 2 : problem.by_columns() ? 1 : (tile + kMostBox - 1) / kMostBox;
  for (int lane = 0; lane < (problem.gate_up ? 2 : problem.lanes); ++lane) {
    args.weight[lane] = problem.by_columns()
                            ? map_of(problem.weight[lane], problem.k, tile, kStreamChunk)
                            : map_of(problem.weight[lane], problem.k, kStreamChunk, tile / args.boxes);
    args.x[lane] = map_of(problem.x[lane], problem.k, kStreamChunk, tuning.tokens * tuning.token_groups);
  }
  args.outer = outer;
  args.tokens = static_cast<int>(problem.x[0].outer);
  args.target = target;
  args.lane_stride = how.lane_stride;
  args.row_groups = tuning.row_groups;
  args.token_groups = tuning.token_groups;
  args.wideners = tuning.wideners();
  args.chain_threads = 32 * tuning.warps();
  args.tile_bytes = tile * 2;
  args.row_bytes = tuning.row_groups * kStreamChunk * 2;
  args.stages = tuning.stages;
  args.segments = how.leaves->segments;
  args.lanes = problem.lanes;
  args.early = how.early;
  for (int s = 0; s < how.leaves->segments; ++s) args.segment[s] = how.leaves->segment[s];
  args.activation = activation;
  const int rows = problem.gate_up ? tile / 2 : tile;
  const LaunchShape shape{.blocks = (outer + rows - 1) / rows * args.segments * args.lanes,
                          .threads = tuning.block_threads(),
                          .shared_bytes = tuning.shared_bytes,
                          .early = how.early};
  if (problem.bf16_nodes) {
    launch(stream<kTokens, kRows, true, kWeights>, shape, stream_handle, "stream contraction", args,
           how.leaves->list);
  } else {
    launch(stream<kTokens, kRows, false, kWeights>, shape, stream_handle, "stream contraction", args,
           how.leaves->list);
  }
}

template <const auto& kShares, StreamWeights kWeights>
void launch_share(const StreamProblem& problem, const Target& target, const StreamActivation& activation,
                  const StreamLaunch& how, cudaStream_t stream_handle) {
  const StreamTuning& tuning = how.tuning;
  const bool launched = any_built<kShares>([&]<StreamShare kShare>() {
    if (tuning.tokens != kShare.tokens || tuning.rows != kShare.rows) return false;
    launch_stream<kShare.tokens, kShare.rows, kWeights>(problem, target, activation, how, stream_handle);
    return true;
  });
  if (!launched)
    throw Error(ErrorCode::internal, "no kernel is built for threads of " + std::to_string(tuning.tokens) +
                                         " tokens x " + std::to_string(tuning.rows) + " rows");
}

}  // namespace samebits::engine::cuda::fma_leaf
