// The plain contraction of this engine is its tile kernel, which takes any strides and any tree.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/plain.hpp"
#include "engine/hip/tiles.hpp"

namespace samebits::engine::hip {

static_assert(kPlainTile == kTile);

int plain_slots(int multiprocessors) { return tile_slots(multiprocessors); }

void contract_plain(const Contraction& problem, const Pending& pending, cudaStream_t stream) {
  TileArguments args;
  args.left[0] = problem.left;
  args.right[0] = problem.right;
  args.target[0] = problem.target;
  args.bf16_nodes = problem.bf16_nodes;
  args.carried = problem.carried;
  args.pending = pending;
  launch_tiles(problem.leaf, args, *problem.leaves, stream);
}

}  // namespace samebits::engine::hip
