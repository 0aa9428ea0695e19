// The block's stages on a GPU: each finds the kernels that serve its operands, fused where they can be.
#pragma once

#include <memory>
#include <optional>

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/cuda_device.hpp"
#include "engine/cuda/fma/kernels.hpp"
#include "engine/cuda/matrix_kernels.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::SAMEBITS_GPU {

class CudaBlock final : public Block {
 public:
  CudaBlock(const Problem& problem, std::shared_ptr<const CudaDeviceState> device);

  void gate_up(const GateUp& stage, Queue queue) override;
  void down(const Down& stage, Queue queue) override;
  void d_act(const DAct& stage, Queue queue) override;
  void d_hidden(const DHidden& stage, Queue queue) override;
  void d_hidden_lane(const DHiddenLane& stage, Queue queue) override;
  void d_weight(const DWeight& stage, Queue queue) override;
  void finish(const Finish& stage, Queue queue) override;
  void gate_up_down(const GateUp& first, const Down& second, Queue queue) override;
  void d_act_hidden(const DAct& first, const DHidden& second, Queue queue) override;
  bool takes_slices() const override;
  std::size_t workspace_bytes() const override;

 private:
  void build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends = false);
  Contraction contraction(const Operand& left, const Operand& right, std::int64_t k,
                          const Target& target) const;
  void contract(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                cudaStream_t stream, const OpenLeaf& open = {});

  Target target_of(const CoverView& cover) const;
  Target target_of(const Sink& sink) const;
  const float* sigma() const { return device_->sigma(problem_.contract.sigma); }

  Problem problem_;
  std::shared_ptr<const CudaDeviceState> device_;
  Leaves leaves_, next_leaves_;  // of the stage in hand, and of the one that a launch joins to it
  int levels_ = 0;
  std::optional<fma_leaf::Kernels> fma_;
  std::optional<matrix_leaf::Kernels> matrix_;
  DeviceBuffer pending_memory_, lane_roots_;
};

}  // namespace samebits::engine::SAMEBITS_GPU
