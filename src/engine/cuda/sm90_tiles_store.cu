// Tiles whose results are stored as they are: Y, dX, weight gradients and their covers.
#include "engine/cuda/sm90_tiles.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

TileDevice prepare_store_tiles() {
  tiles::prepare_kernels<StoreEpilogue, 1, k_major, k_major>(tiles::WideShapes());  // down
  tiles::prepare_kernels<StoreEpilogue, 1, k_major, mn64>(tiles::WideShapes());     // one lane of dX
  tiles::prepare_kernels<StoreEpilogue, 2, k_major, mn64>(tiles::WideShapes());     // dX
  tiles::prepare_kernels<StoreEpilogue, 1, mn64, mn64>(tiles::WideShapes());        // weight gradients
  TileDevice device;
  for (const int cluster : {1, 2}) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(cluster));
    config.blockDim = dim3(tiles::kThreads);
    config.dynamicSmemBytes = tiles::Ring<tiles::Shape<256>>::shared_bytes(false);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(
              &clusters, tiles::tile_kernel<StoreEpilogue, tiles::Shape<256>, 1, k_major, k_major>, &config),
          "asking how many clusters fit");
    device.most[cluster - 1] = clusters * cluster;
  }
  return device;
}

void tiles_store(const TileProblem& problem, const Target& target, const TileTuning& tuning,
                 const TileResources& resources) {
  const StoreEpilogue epilogue{target, stores_pairs(target)};
  tiles::Staged staged;
  if (!target.f32 && problem.leaves->nodes() == 1) {
    staged = {1, {{static_cast<std::uint16_t*>(target.data), problem.left[0].outer, target.row_stride}}};
  }
  const bool left_k = is_k_major(problem.left[0]), right_k = is_k_major(problem.right[0]);
  if (problem.lanes == 2) {
    tiles::launch_tiles<StoreEpilogue, 2, k_major, mn64>(tiles::WideShapes(), problem, epilogue, staged,
                                                         tuning, resources);
  } else if (left_k && right_k) {
    tiles::launch_tiles<StoreEpilogue, 1, k_major, k_major>(tiles::WideShapes(), problem, epilogue, staged,
                                                            tuning, resources);
  } else if (left_k) {
    tiles::launch_tiles<StoreEpilogue, 1, k_major, mn64>(tiles::WideShapes(), problem, epilogue, staged,
                                                         tuning, resources);
  } else {
    tiles::launch_tiles<StoreEpilogue, 1, mn64, mn64>(tiles::WideShapes(), problem, epilogue, staged, tuning,
                                                      resources);
  }
}

}  // namespace samebits::engine::cuda
