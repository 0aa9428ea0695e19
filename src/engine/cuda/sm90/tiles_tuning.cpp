#include <algorithm>
#include <cmath>
#include <span>

#include "engine/cuda/sm90/tensor_map.hpp"
#include "engine/cuda/sm90/tiles.hpp"

namespace samebits::engine::cuda {
namespace {

constexpr int kTileRows = 128, kWidest = 256;

}  // namespace

std::size_t tile_pending_bytes(int multiprocessors, int levels) {
  return static_cast<std::size_t>(multiprocessors) * static_cast<std::size_t>(levels) * kTileRows * kWidest *
         sizeof(float);
}

bool tiles_serve(const TileProblem& problem, int levels) {
  for (int i = 0; i < 2; ++i) {
    for (const Operand* operand : {&problem.left[i], &problem.right[i]}) {
      if (operand->data != nullptr && !is_mappable(*operand, problem.k)) return false;
    }
  }
  return problem.leaves->fits_short() && problem.leaves->levels() + problem.lanes - 1 <= levels;
}

namespace {

// Cycles of the busiest block, by what a multiprocessor was seen to do: 2048 products a cycle, 52 bytes a
// cycle arriving, of which L2 gives 40; a tile costs its epilogue besides.
double cycles_of(int width, const ClusterShape& cluster, double waves, std::int64_t turns) {
  constexpr double kTurn = 64, kProducts = 2048, kArriving = 52, kFromL2 = 40;
  const double products = kTileRows * width * kTurn / kProducts;
  const double arriving = (kTileRows + width) * kTurn * 2 / kArriving;
  const double from_l2 =
      (static_cast<double>(kTileRows) / cluster.cols + static_cast<double>(width) / cluster.rows) * kTurn *
      2 / kFromL2;
  const double epilogue = 500 + 2000.0 * width / kWidest;
  const double larger = 1 + 0.01 * (cluster.rows * cluster.cols - 1);  // fewer fit, more wait for each other
  return waves * (static_cast<double>(turns) * std::max({products, arriving, from_l2}) + epilogue) * larger;
}

}  // namespace

TileTuning choose_tiles(bool gate_and_up, std::int64_t rows, std::int64_t cols, std::int64_t k,
                        const TileDevice& device) {
  TileTuning best;
  double least = 0;
  const std::int64_t turns = (k + 63) / 64;
  const std::span<const int> widths =
      gate_and_up ? std::span<const int>(kGateUpTileWidths) : std::span<const int>(kTileWidths);
  for (const int width : widths) {
    const int columns = gate_and_up ? width / 2 : width;
    for (const ClusterShape cluster : {ClusterShape{2, 1}, ClusterShape{1, 1}, ClusterShape{1, 2}}) {
      const int size = cluster.rows * cluster.cols;
      if (device.blocks(size) < size) continue;
      // Blocks that share a tile of rows bring all of it, also rows that are not there, which are slow to
      // come.
      if (cluster.cols > 1 && rows < kTileRows) continue;
      const std::int64_t groups =
          std::int64_t{groups_of(rows, kTileRows * cluster.rows)} * groups_of(cols, columns * cluster.cols);
      const double waves = std::ceil(static_cast<double>(groups) / (device.blocks(size) / size));
      const double cycles = cycles_of(width, cluster, waves, turns);
      if (least != 0 && cycles >= least) continue;
      least = cycles;
      best = {width, cluster};
    }
  }
  return best;
}

TileDevice prepare_tiles() {
  prepare_gate_up_tiles();
  prepare_d_act_tiles();
  prepare_carry_tiles();
  return prepare_store_tiles();
}

}  // namespace samebits::engine::cuda
