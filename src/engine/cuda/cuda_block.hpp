// The block's stages on a GPU: each finds the kernels that serve its operands, fused where they can be.
#pragma once

#include <memory>
#include <optional>

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/cuda_device.hpp"
#include "engine/cuda/fma_kernels.hpp"
#include "engine/cuda/sm90_stream.hpp"
#include "engine/cuda/sm90_tiles.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cuda {

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
  std::size_t workspace_bytes() const override;

 private:
  void build(const numerics::AxisTree& tree, std::span<const Interval> held);
  bool is_sm90() const { return problem_.contract.leaf == Leaf::sm90; }
  Contraction contraction(const Operand& left, const Operand& right, std::int64_t k,
                          const Target& target) const;
  void contract(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                cudaStream_t stream);

  // One of these families serves a stage, or the plain kernels do.
  StreamResources stream_resources(cudaStream_t stream, bool early) const;
  TileResources tile_resources(cudaStream_t stream, bool early) const;
  TileTuning tile_tuning(std::int64_t rows, std::int64_t cols, bool activation) const;
  bool fused_gate_up(const GateUp& stage, cudaStream_t stream);
  bool fused_d_act(const DAct& stage, cudaStream_t stream);
  bool fused_d_hidden(const DHidden& stage, cudaStream_t stream);
  // result[token, row] = tokens [M, k] * weights [rows, k].
  bool fast_tokens(const Operand& tokens, const Operand& weights, std::int64_t k, const Target& target,
                   cudaStream_t stream);
  bool fast_d_weight(const Operand& left, const Operand& right, std::int64_t k, const Target& target,
                     cudaStream_t stream);

  Target target_of(const CoverView& cover) const;
  Target target_of(const Sink& sink) const;
  const float* sigma() const { return device_->sigma(problem_.contract.sigma); }

  Problem problem_;
  std::shared_ptr<const CudaDeviceState> device_;
  Leaves leaves_;  // of the stage in hand
  int levels_ = 0;
  StreamDevice stream_device_{};
  std::optional<fma_leaf::Kernels> fma_;
  DeviceBuffer pending_memory_, lane_roots_;
};

}  // namespace samebits::engine::cuda
