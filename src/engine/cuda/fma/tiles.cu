#include <algorithm>

#include "engine/cuda/fma/tiles.cuh"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {
namespace {

bool by_columns(const Operand& operand) { return operand.k_stride != 1; }

// 16 bytes at a time along the unit stride.
bool aligned(const Operand& operand, std::int64_t k) {
  const bool columns = by_columns(operand);
  if (columns && operand.outer_stride != 1) return false;
  const std::int64_t stride = columns ? operand.k_stride : operand.outer_stride;
  const std::int64_t lines = columns ? k : operand.outer;
  return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && (stride % 8 == 0 || lines == 1);
}

}  // namespace

int tiles_slots(int multiprocessors) { return 2 * multiprocessors; }

std::size_t tiles_pending_bytes(bool bf16_nodes, int slots, int levels) {
  return static_cast<std::size_t>(slots) * static_cast<std::size_t>(levels) * kTileSide * kTileSide *
         (bf16_nodes ? 2 : 4);
}

// One more than is pending: a finished node is stored from there.
int tiles_levels(const TilesProblem& problem) { return problem.leaves->levels() + 1; }

bool tiles_serve(const TilesProblem& problem) {
  if (problem.leaves->count() > FmaLeafList::kMost || problem.leaves->levels() > 30) return false;
  const int operands = std::max(problem.count, problem.lanes);
  for (int i = 0; i < operands; ++i) {
    if (!aligned(problem.left[i], problem.k) || !aligned(problem.right[i], problem.k)) return false;
    if (by_columns(problem.left[i]) != by_columns(problem.left[0])) return false;
    if (by_columns(problem.right[i]) != by_columns(problem.right[0])) return false;
  }
  const std::int64_t down = (problem.left[0].outer + kTileSide - 1) / kTileSide;
  const std::int64_t across = (problem.right[0].outer + kTileSide - 1) / kTileSide;
  if (down * across * problem.count > (std::int64_t{1} << 30)) return false;
  return !by_columns(problem.left[0]) || by_columns(problem.right[0]);
}

void prepare_tiles() {
  prepare_tiles_kernel<false, false>();
  prepare_tiles_kernel<false, true>();
  prepare_tiles_kernel<true, true>();
}

void run_tiles(const TilesProblem& problem, const TilesTuning& tuning, const TilesPending& pending,
               cudaStream_t stream) {
  const std::int64_t tiles = (problem.left[0].outer + kTileSide - 1) / kTileSide *
                             ((problem.right[0].outer + kTileSide - 1) / kTileSide) * problem.count;
  if (tiles == 0) return;
  const TilesArguments args{{problem.left[0], problem.left[1]},
                            {problem.right[0], problem.right[1]},
                            {problem.target[0], problem.target[1]},
                            problem.count,
                            problem.lanes,
                            problem.lanes_precision,
                            problem.k,
                            tuning.rows_a_band,
                            static_cast<uint4*>(pending.data),
                            pending.levels};
  const auto blocks = static_cast<int>(std::min<std::int64_t>({tiles, tuning.blocks, pending.slots}));
  if (by_columns(problem.left[0])) {
    launch_tiles<true, true>(args, problem.bf16_nodes, blocks, *problem.leaves, stream);
  } else if (by_columns(problem.right[0])) {
    launch_tiles<false, true>(args, problem.bf16_nodes, blocks, *problem.leaves, stream);
  } else {
    launch_tiles<false, false>(args, problem.bf16_nodes, blocks, *problem.leaves, stream);
  }
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
