// What the leaf gfx942 has beside the plain contraction: the two contractions of a stage in one launch, and
// the lanes of dX added where their roots are made. Stages that are not fused here return false.
#pragma once

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/contraction.hpp"
#include "engine/cuda/cuda_device.hpp"
#include "engine/engine.hpp"
#include "gpu/device_buffer.hpp"

namespace samebits::engine::hip::gfx942_leaf {

class Kernels {
 public:
  // `levels`: most nodes that are pending at once on any axis of the problem.
  Kernels(const Problem& problem, const CudaDeviceState& device, int levels);

  bool gate_up(const GateUp& stage, const Leaves& hidden, cudaStream_t stream);
  bool d_hidden(const DHidden& stage, const Leaves& intermediate, cudaStream_t stream);
  bool contract(const Contraction& problem, cudaStream_t stream);

  bool d_act(const DAct&, const Leaves&, cudaStream_t) { return false; }
  bool gate_up_down(const GateUp&, const Leaves&, const Down&, const Leaves&, const Target&, cudaStream_t) {
    return false;
  }
  bool d_act_hidden(const DAct&, const Leaves&, const DHidden&, const Leaves&, cudaStream_t) { return false; }

  std::size_t workspace_bytes() const { return pending_memory_.bytes(); }

 private:
  Contract contract_;
  const float* sigma_;
  DeviceBuffer pending_memory_;
  Pending pending_;
};

}  // namespace samebits::engine::hip::gfx942_leaf
