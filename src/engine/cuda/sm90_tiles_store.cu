// Tiles whose results are stored as they are: Y, dX, weight gradients and their covers.
#include "engine/cuda/sm90_tiles.cuh"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {

using enum TileLayout;

void prepare_store_tiles() {
  tiles::prepare_kernels<StoreEpilogue, 1, k_major, k_major>();  // down
  tiles::prepare_kernels<StoreEpilogue, 1, k_major, mn64>();     // one lane of dX
  tiles::prepare_kernels<StoreEpilogue, 2, k_major, mn64>();     // dX
  tiles::prepare_kernels<StoreEpilogue, 1, mn64, mn64>();        // weight gradients
}

void tiles_store(const TileProblem& problem, const Target& target, const TileTuning& tuning,
                 const TileResources& resources) {
  const std::int64_t vector = target.f32 ? 2 : 8;  // elements of a store
  const bool aligned = reinterpret_cast<std::uintptr_t>(target.data) % 16 == 0 &&
                       target.row_stride % vector == 0 && target.node_stride % vector == 0;
  const StoreEpilogue epilogue{target, aligned};
  const bool left_k = is_k_major(problem.left[0]), right_k = is_k_major(problem.right[0]);
  if (problem.lanes == 2) {
    tiles::launch_tiles<StoreEpilogue, 2, k_major, mn64>(problem, epilogue, tuning, resources);
  } else if (left_k && right_k) {
    tiles::launch_tiles<StoreEpilogue, 1, k_major, k_major>(problem, epilogue, tuning, resources);
  } else if (left_k) {
    tiles::launch_tiles<StoreEpilogue, 1, k_major, mn64>(problem, epilogue, tuning, resources);
  } else {
    tiles::launch_tiles<StoreEpilogue, 1, mn64, mn64>(problem, epilogue, tuning, resources);
  }
}

}  // namespace samebits::engine::cuda
