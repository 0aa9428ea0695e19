#include "engine/hip/gfx942_kernels.hpp"

#include "engine/cuda/elementwise.hpp"
#include "engine/cuda/plain.hpp"
#include "engine/hip/tiles.hpp"

namespace samebits::engine::hip::gfx942_leaf {

Kernels::Kernels(const Problem& problem, const CudaDeviceState& device, int levels)
    : contract_(problem.contract), sigma_(device.sigma(problem.contract.sigma)) {
  pending_.slots = tile_slots(device.multiprocessors());
  pending_.levels = levels + 1;  // and the root of dX's first lane
  pending_memory_ = DeviceBuffer(device.index(), sizeof(float) * static_cast<std::size_t>(kTileLevel) *
                                                     static_cast<std::size_t>(pending_.slots) *
                                                     static_cast<std::size_t>(pending_.levels));
  pending_.data = pending_memory_.as<float>();
}

bool Kernels::gate_up(const GateUp& stage, const Leaves& hidden, cudaStream_t stream) {
  if (hidden.count() == 0) return false;
  TileArguments args;
  args.count = 2;
  args.left[0] = args.left[1] = by_rows(stage.x);
  args.right[0] = by_rows(stage.gate);
  args.right[1] = by_rows(stage.up);
  args.target[0] = target_of_view(stage.gate_out);
  args.target[1] = target_of_view(stage.up_out);
  args.bf16_nodes = contract_.node == Precision::bf16;
  args.pending = pending_;
  launch_tiles(Leaf::gfx942, args, hidden, stream);
  activate(contract_, sigma_, stage.gate_out, stage.up_out, stage.act, stream);
  return true;
}

bool Kernels::d_hidden(const DHidden& stage, const Leaves& intermediate, cudaStream_t stream) {
  TileArguments args;
  args.lanes = 2;
  args.lanes_precision = contract_.lanes;
  args.left[0] = by_rows(stage.d_gate);
  args.left[1] = by_rows(stage.d_up);
  args.right[0] = by_cols(stage.gate);
  args.right[1] = by_cols(stage.up);
  args.target[0] = target_of_view(stage.dx);
  args.bf16_nodes = contract_.node == Precision::bf16;
  args.pending = pending_;
  launch_tiles(Leaf::gfx942, args, intermediate, stream);
  return true;
}

bool Kernels::contract(const Contraction& problem, cudaStream_t stream) {
  contract_plain(problem, pending_, stream);
  return true;
}

}  // namespace samebits::engine::hip::gfx942_leaf
