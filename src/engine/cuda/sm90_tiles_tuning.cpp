#include <algorithm>

#include "engine/cuda/sm90_tiles.hpp"
#include "engine/cuda/tensor_map.hpp"

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

// The fewest turns of the busiest block: tiles a block has, times what a tile costs. A narrow tile costs more
// than half a wide one, since each operand byte serves fewer products.
TileTuning choose_tiles(std::int64_t rows, std::int64_t cols, bool activation, int multiprocessors) {
  TileTuning best;
  double least = 0;
  for (const int width : {256, 128}) {
    for (const int cluster : {2, 1}) {
      const std::int64_t columns = activation ? width / 2 : width;
      const std::int64_t groups =
          (rows + kTileRows * cluster - 1) / (kTileRows * cluster) * ((cols + columns - 1) / columns);
      const std::int64_t clusters = multiprocessors / cluster, waves = (groups + clusters - 1) / clusters;
      const double cost =
          static_cast<double>(waves) * (width == 256 ? 1.0 : 0.56) * (cluster == 2 ? 1.0 : 1.06);
      if (least == 0 || cost < least) {
        least = cost;
        best = {width, cluster};
      }
    }
  }
  return best;
}

void prepare_tiles() {
  prepare_store_tiles();
  prepare_gate_up_tiles();
  prepare_d_act_tiles();
}

}  // namespace samebits::engine::cuda
