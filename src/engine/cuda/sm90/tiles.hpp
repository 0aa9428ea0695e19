// Many tokens, leaf sm90: persistent tiles on wgmma, fed by the copy engine, with the activation or its
// gradient in the epilogue. Bound by the tensor cores; at 65 to 128 tokens by what reaches a multiprocessor.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cuda {

// Blocks that work on neighbouring tiles: `rows` down the rows share a right operand, `cols` along the
// columns a left one.
struct ClusterShape {
  int rows = 1, cols = 1;
};

// Columns of a tile's right operand that kernels are built for; gate and up side by side also come as 96
// each.
inline constexpr int kTileWidths[] = {256, 128};
inline constexpr int kGateUpTileWidths[] = {256, 128, 192};

// What a launch may choose; no bit depends on it.
struct TileTuning {
  int width = kTileWidths[0];
  ClusterShape cluster;
};

// How many blocks can be resident as clusters of 1 and 2.
struct TileDevice {
  int most[2] = {0, 0};
  int blocks(int cluster) const { return most[cluster - 1]; }
};

// One result of a tile launch and what it is made of. `lanes` 2: the second pair of operands is contracted
// over the same axis and the two roots are added (dX). With an activation, `right[0]` is gate and `right[1]`
// is up.
struct TileProblem {
  Operand left[2], right[2];
  int lanes = 1;
  std::int64_t k = 0;
  const Leaves* leaves = nullptr;
  bool bf16_nodes = false;
  Precision lanes_precision = Precision::f32;
  int parts_in_turn = 0;  // of the rows: tiles of different parts are neighbours in time
};

inline int groups_of(std::int64_t extent, int size) { return static_cast<int>((extent + size - 1) / size); }

// Bytes of pending nodes: `levels` of every resident block.
std::size_t tile_pending_bytes(int multiprocessors, int levels);

// Whether these kernels can read the operands and follow the tree.
bool tiles_serve(const TileProblem& problem, int levels);

// For a result of rows x cols, each element a contraction over `k`, of both lanes if there are two.
TileTuning choose_tiles(bool gate_and_up, std::int64_t rows, std::int64_t cols, std::int64_t k,
                        const TileDevice& device);

// Once on every device, before a launch.
TileDevice prepare_tiles();
TileDevice prepare_store_tiles();
void prepare_carry_tiles();
void prepare_gate_up_tiles();
void prepare_d_act_tiles();

struct TileResources {
  float* pending = nullptr;
  int levels = 0;
  TileDevice device;
  cudaStream_t stream = nullptr;
  bool early = false;  // may begin before the kernel in front has ended
};

// A width that no kernel is built for is Error(internal).
void tiles_store(const TileProblem& problem, const Target& target, const TileTuning& tuning,
                 const TileResources& resources);
// Weight gradients whose first leaf has begun before, or whose last goes on.
void tiles_carry(const TileProblem& problem, const Target& target, const Carried& carried,
                 const TileTuning& tuning, const TileResources& resources);
void tiles_gate_up(const TileProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                   const TileTuning& tuning, const TileResources& resources);
void tiles_d_act(const TileProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                 const TileTuning& tuning, const TileResources& resources);

}  // namespace samebits::engine::cuda
