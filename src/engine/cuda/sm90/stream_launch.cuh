// From problems to a launch of stream.cuh.
#pragma once

#include <numeric>
#include <string>

#include "engine/cuda/built_kernels.hpp"
#include "engine/cuda/sm90/stream.cuh"
#include "engine/cuda/sm90/stream_tuning.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda::stream {

inline constexpr int kMostShared = 227 * 1024;

using Down = Phase<StoreElement, 1, false, false>;
using Hidden = Phase<StoreElement, 2, true, false>;
using HiddenLane = Phase<StoreElement, 1, true, false>;
using Activate = Phase<ActivateElement, 1, false, true>;
using Gradient = Phase<GradientElement, 1, true, true>;

template <class First, class Second>
void prepare_kernels() {
  for_each_built<kTokenColumns>(
      [&]<int kTokens>() { allow_shared_memory(stream_kernel<First, Second, kTokens>, kMostShared); });
}

// Turns of 64 k along an axis, and the most that every leaf has a multiple of; 0 when some leaf has no whole
// turns.
struct AxisTurns {
  int count = 0, common = 0;
};
inline AxisTurns turns_of(const Leaves& leaves) {
  AxisTurns turns;
  bool whole = true;
  for (const LeafStep leaf : leaves.steps()) {
    turns.count += (leaf.length() + kTurn - 1) / kTurn;
    turns.common = std::gcd(turns.common, leaf.length() / kTurn);
    whole = whole && leaf.length() % kTurn == 0;
  }
  if (!whole) turns.common = 0;
  return turns;
}

template <class Phase, int kTokens>
PhaseShape shape_of(const StreamProblem& problem) {
  PhaseShape shape;
  shape.rows = problem.weight[0].outer;
  shape.parts = Phase::kParts;
  shape.columns = Phase::kColumns;
  shape.most_rows = Phase::most_rows(kTokens);
  shape.values = PhaseKernel<Phase, kTokens>::kValues;
  shape.pending = problem.leaves->levels() + Phase::kLanes - 1;
  const AxisTurns turns = turns_of(*problem.leaves);
  shape.turns = turns.count;
  shape.common_turns = !Phase::kColumns || shape.rows % 32 == 0 ? turns.common : 0;
  return shape;
}

template <class Phase>
void fill(PhaseArguments<Phase>& args, const StreamProblem& problem, const typename Phase::Epilogue& epilogue,
          const PhaseShape& shape, const PhaseTuning& tuning, int token_rows) {
  args.whole = shape.common_turns > 0;
  for (int i = 0; i < 2; ++i) {
    const Operand& weight = problem.weight[Phase::kLanes == 2 || Phase::kParts == 2 ? i : 0];
    const Operand& token = problem.token[Phase::kLanes == 2 ? i : 0];
    if (args.whole) {
      args.weight[i] = Phase::kColumns
                           ? make_piece_map(weight, problem.k, kTurn * tuning.per_slot, tuning.rows / 32)
                           : make_piece_map(weight, problem.k, tuning.rows, tuning.per_slot);
      args.token[i] = make_piece_map(token, problem.k, token_rows, tuning.per_slot);
    } else {
      args.weight[i] = Phase::kColumns ? make_tensor_map(weight, problem.k, 32, kTurn)
                                       : make_tensor_map(weight, problem.k, kTurn, tuning.rows);
      args.token[i] = make_tensor_map(token, problem.k, kTurn, token_rows);
    }
  }
  args.leaves = problem.leaves->template list<ShortLeafList>();
  args.rows = problem.weight[0].outer;
  args.tokens = static_cast<int>(problem.token[0].outer);
  args.units = tuning.units;
  args.unit_rows = tuning.rows;
  args.per_slot = tuning.per_slot;
  args.axis_turns = shape.turns;
  args.epilogue = epilogue;
}

template <class First, class Second = NoPhase>
void launch_stream(const StreamProblem& first, const typename First::Epilogue& first_epilogue,
                   const StreamProblem& second, const typename Second::Epilogue& second_epilogue,
                   const StreamResources& resources) {
  constexpr bool kTwo = !std::is_same_v<Second, NoPhase>;
  const int columns = token_columns(first.token[0].outer);
  const bool launched = any_built<kTokenColumns>([&]<int kTokens>() {
    if (columns != kTokens) return false;
    const PhaseShape first_shape = shape_of<First, kTokens>(first);
    PhaseShape second_shape;
    if constexpr (kTwo) second_shape = shape_of<Second, kTokens>(second);
    const StreamTuning tuning =
        choose_stream(kTokens, first_shape, kTwo ? &second_shape : nullptr, resources.device);
    Arguments<First, Second> args{};
    fill<First>(args.first, first, first_epilogue, first_shape, tuning.first, kTokens / tuning.cluster);
    if constexpr (kTwo)
      fill<Second>(args.second, second, second_epilogue, second_shape, tuning.second,
                   kTokens / tuning.cluster);
    args.slots = tuning.slots;
    args.slot_bytes = tuning.slot_bytes;
    args.pending = tuning.shared_pending ? nullptr : resources.pending;
    args.levels = resources.levels;
    args.bf16_nodes = resources.bf16_nodes;
    args.lanes = resources.lanes_precision;
    args.meeting = resources.barrier;
    LaunchShape shape{tuning.blocks, kThreads, tuning.shared_bytes, tuning.cluster};
    shape.together = kTwo;
    launch(stream_kernel<First, Second, kTokens>, shape, resources.stream, "contraction of few tokens", args);
    return true;
  });
  if (!launched)
    throw Error(ErrorCode::internal,
                "no kernel is built for " + std::to_string(columns) + " columns of tokens");
}

}  // namespace samebits::engine::cuda::stream
