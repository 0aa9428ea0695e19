#include <hip/hip_runtime.h>

#include "engine/hip/tiles.hpp"
//
#include <algorithm>

#include "engine/hip/launch.hpp"
#include "engine/hip/tile_run.hpp"

namespace samebits::engine::hip {
namespace {

// The workgroup that this thread is one of.
class KernelGroup {
 public:
  __device__ explicit KernelGroup(TileMemory& memory) : memory_(memory) {}
  __device__ std::int64_t block() const { return blockIdx.x; }
  __device__ std::int64_t blocks() const { return gridDim.x; }
  __device__ TileMemory& memory() { return memory_; }
  __device__ void barrier() { __syncthreads(); }
  template <class Body>
  [[gnu::always_inline]] __device__ void each(const Body& body) {
    // Places are computed anew in every phase: kept, those of all phases together fill more registers than
    // the results.
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+v"(thread));
    body(thread, mine_);
  }
  [[gnu::always_inline]] __device__ void matrix_step() {
#pragma unroll
    for (int m = 0; m < kSide; ++m) {
#pragma unroll
      for (int n = 0; n < kSide; ++n) {
        mine_.sum[m][n] =
            __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(mine_.a[m], mine_.b[n], mine_.sum[m][n], 0, 0, 0);
      }
    }
  }

 private:
  TileMemory& memory_;
  TileThread mine_;
};

template <Leaf kLeaf, class List>
__global__ void __launch_bounds__(kTileThreads, 2) tiles_kernel(const TileArguments args, const List leaves) {
  __shared__ TileMemory memory;
  KernelGroup group(memory);
  run_tiles<kLeaf>(group, args, leaves);
}

template <Leaf kLeaf>
void launch_leaf(const TileArguments& args, const Leaves& leaves, const LaunchShape& shape,
                 cudaStream_t stream) {
  if (leaves.fits_short()) {
    launch(tiles_kernel<kLeaf, ShortLeafList>, shape, stream, "tiles", args, leaves.list<ShortLeafList>());
  } else {
    launch(tiles_kernel<kLeaf, LongLeafList>, shape, stream, "tiles", args, leaves.list<LongLeafList>());
  }
}

}  // namespace

void launch_tiles(Leaf leaf, const TileArguments& args, const Leaves& leaves, cudaStream_t stream) {
  const std::int64_t tiles = tiles_along(args.left[0].outer) * tiles_along(args.right[0].outer) * args.count;
  if (tiles == 0 || leaves.count() == 0) return;
  LaunchShape shape;
  shape.blocks = static_cast<int>(std::min<std::int64_t>(tiles, args.pending.slots));
  shape.threads = kTileThreads;
  if (leaf == Leaf::fma) {
    launch_leaf<Leaf::fma>(args, leaves, shape, stream);
  } else {
    launch_leaf<Leaf::gfx942>(args, leaves, shape, stream);
  }
}

}  // namespace samebits::engine::hip
