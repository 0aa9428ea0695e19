// Many tokens, leaf fma: tiles of 128 x 128 results, 8 x 16 a thread, operands widened to f32 on their way to
// shared memory. Bound by FFMA. Serves every stage: operands by rows or by columns, two lanes, covers.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/fma/leaves.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

inline constexpr int kTileSide = 128;

// Either `count` contractions of one shape, or, with `lanes` 2, the two whose roots are added into target[0].
struct TilesProblem {
  Operand left[2], right[2];
  Target target[2];
  int count = 1, lanes = 1;
  Precision lanes_precision = Precision::f32;
  bool bf16_nodes = false;
  int k = 0;
  const Leaves* leaves = nullptr;
};

// No bit depends on it.
struct TilesTuning {
  int blocks = 0;        // resident; each has a slot of pending nodes
  int rows_a_band = 16;  // row tiles that neighbouring blocks share columns of
};

// Pending nodes of every resident block, `levels` each.
struct TilesPending {
  void* data = nullptr;
  int slots = 0, levels = 0;
};

int tiles_slots(int multiprocessors);
std::size_t tiles_pending_bytes(bool bf16_nodes, int slots, int levels);
int tiles_levels(const TilesProblem& problem);  // that a problem needs

// Whether these kernels can read the operands and follow the tree.
bool tiles_serve(const TilesProblem& problem);

// Once on every device, before a launch.
void prepare_tiles();

void run_tiles(const TilesProblem& problem, const TilesTuning& tuning, const TilesPending& pending,
               cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
