// Tiles whose results are stored as they are: Y, dX, weight gradients and their covers.
#include "engine/cuda/sm90/tiles_launch.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

TileDevice prepare_store_tiles() {
  tiles::prepare_kernels<kTileWidths, StoreEpilogue, 1, k_major, k_major>();  // down
  tiles::prepare_kernels<kTileWidths, StoreEpilogue, 1, k_major, mn64>();     // one lane of dX
  tiles::prepare_kernels<kTileWidths, StoreEpilogue, 2, k_major, mn64>();     // dX
  tiles::prepare_kernels<kTileWidths, StoreEpilogue, 1, mn64, mn64>();        // weight gradients
  TileDevice device;
  for (const int cluster : {1, 2}) {
    device.most[cluster - 1] =
        resident_blocks(tiles::tile_kernel<StoreEpilogue, tiles::Shape<256>, 1, k_major, k_major>,
                        tiles::kThreads, tiles::Ring<tiles::Shape<256>>::shared_bytes(false), cluster);
  }
  return device;
}

void tiles_store(const TileProblem& given, const Target& target, const TileTuning& tuning,
                 const TileResources& resources) {
  TileProblem problem = given;
  problem.parts_in_turn = target.slices;
  const StoreEpilogue epilogue{target, neighbours_at_once(target)};
  tiles::Staged staged;
  if (!target.f32 && target.slices == 0 && problem.leaves->nodes() == 1) {
    staged = {1, {{static_cast<std::uint16_t*>(target.data), problem.left[0].outer, target.row_stride}}};
  }
  const bool left_k = is_k_major(problem.left[0]), right_k = is_k_major(problem.right[0]);
  if (problem.lanes == 2) {
    tiles::launch_tiles<kTileWidths, StoreEpilogue, 2, k_major, mn64>(problem, epilogue, staged, tuning,
                                                                      resources);
  } else if (left_k && right_k) {
    tiles::launch_tiles<kTileWidths, StoreEpilogue, 1, k_major, k_major>(problem, epilogue, staged, tuning,
                                                                         resources);
  } else if (left_k) {
    tiles::launch_tiles<kTileWidths, StoreEpilogue, 1, k_major, mn64>(problem, epilogue, staged, tuning,
                                                                      resources);
  } else {
    tiles::launch_tiles<kTileWidths, StoreEpilogue, 1, mn64, mn64>(problem, epilogue, staged, tuning,
                                                                   resources);
  }
}

}  // namespace samebits::engine::cuda
