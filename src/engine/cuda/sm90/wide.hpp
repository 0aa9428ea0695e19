// 33 to 128 tokens, leaf sm90: contractions of tokens by rows with weights that are read once, down and dX.
// The weights are the operand of 64 rows, the tokens the narrow one: a step of few tokens ends soonest, and
// an axis without leaves is one chain of steps. Where there are several chains (leaves, the lanes of dX, the
// next rows), warpgroups may take them in turn. Bound by the longest chain and by what reaches a
// multiprocessor.
#pragma once

#include "engine/cuda/sm90/tiles.hpp"

namespace samebits::engine::cuda {

inline constexpr std::int64_t kWideTokens = 128;  // most tokens of a call

// What a launch may choose; no bit depends on it. A block has 64 rows of the weights and `tokens` of the
// call: half of them, and is one of two that share the loads of their weights; or all.
struct WideTuning {
  int width = 32;  // tokens of a warpgroup
  int groups = 2;  // warpgroups side by side, each with tokens of its own
  int parts = 1;   // such rows of warpgroups; they take the chains in turn
  int boxes = 2;   // of 64 k, a stage of the ring
  constexpr int tokens() const { return width * groups; }
  bool operator==(const WideTuning&) const = default;
};

// What kernels are built for.
inline constexpr WideTuning kWideTunings[] = {{32, 2, 1, 2}, {32, 4, 1, 2}, {64, 1, 2, 1}};

// Whether these kernels can read the operands, `left` tokens and `right` weights, and follow the tree.
bool wide_serves(const TileProblem& problem, int levels);

WideTuning choose_wide(const TileProblem& problem, const TileDevice& device);

// Once on every device, before a launch.
TileDevice prepare_wide();

// `device` of the resources is prepare_wide's; pending nodes take no more than tile_pending_bytes. A tuning
// that no kernel is built for is Error(internal).
void wide_store(const TileProblem& problem, const Target& target, const WideTuning& tuning,
                const TileResources& resources);

}  // namespace samebits::engine::cuda
