// Many tokens, leaf sm90: persistent tiles of 128 x 256 or 128 x 128 on wgmma, fed by the copy engine, with
// the activation or its gradient in the epilogue. Bound by the tensor cores.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cuda {

// What a launch may choose; no bit depends on it.
struct TileTuning {
  int width = 256;  // columns of a tile: 256 or 128
  int cluster = 1;  // blocks that share a right operand tile: 1 or 2
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
};

// Bytes of pending nodes: `levels` of every resident block.
std::size_t tile_pending_bytes(int multiprocessors, int levels);

// Whether these kernels can read the operands and follow the tree.
bool tiles_serve(const TileProblem& problem, int levels);

TileTuning choose_tiles(std::int64_t rows, std::int64_t cols, bool activation, int multiprocessors);

// Once on every device, before a launch.
void prepare_tiles();
void prepare_store_tiles();
void prepare_gate_up_tiles();
void prepare_d_act_tiles();

struct TileResources {
  float* pending = nullptr;
  int levels = 0;
  int multiprocessors = 0;
  cudaStream_t stream = nullptr;
  bool early = false;  // may begin before the kernel in front has ended
};

void tiles_store(const TileProblem& problem, const Target& target, const TileTuning& tuning,
                 const TileResources& resources);
void tiles_gate_up(const TileProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                   const TileTuning& tuning, const TileResources& resources);
void tiles_d_act(const TileProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                 const TileTuning& tuning, const TileResources& resources);

}  // namespace samebits::engine::cuda
