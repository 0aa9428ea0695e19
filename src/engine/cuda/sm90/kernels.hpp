// Which of the fast kernels serves a stage whose leaf is sm90, and the memory they share. What none of them
// serves (odd strides, misaligned operands, trees of many leaves) is left to the plain kernels: false is
// returned.
#pragma once

#include "engine/cuda/cuda_device.hpp"
#include "engine/cuda/sm90/stream.hpp"
#include "engine/cuda/sm90/tiles.hpp"
#include "engine/cuda/sm90/wide.hpp"
#include "engine/engine.hpp"
#include "gpu/device_buffer.hpp"

namespace samebits::engine::cuda::sm90_leaf {

class Kernels {
 public:
  // `levels`: most nodes that are pending at once on any axis of the problem.
  Kernels(const Problem& problem, const CudaDeviceState& device, int levels);

  bool gate_up(const GateUp& stage, const Leaves& hidden, cudaStream_t stream);
  bool d_act(const DAct& stage, const Leaves& hidden, cudaStream_t stream);
  bool d_hidden(const DHidden& stage, const Leaves& intermediate, cudaStream_t stream);
  bool contract(const Contraction& problem, cudaStream_t stream);

  // Two stages in one launch, for few tokens. `target` is Y's.
  bool gate_up_down(const GateUp& first, const Leaves& hidden, const Down& second, const Leaves& intermediate,
                    const Target& target, cudaStream_t stream);
  bool d_act_hidden(const DAct& first, const Leaves& hidden, const DHidden& second,
                    const Leaves& intermediate, cudaStream_t stream);

  std::size_t workspace_bytes() const { return pending_.bytes() + barrier_.bytes(); }

 private:
  bool streams(const StreamProblem& problem) const { return stream_serves(problem, levels_); }
  TileProblem tiles_of(const StreamProblem& problem) const;
  StreamResources stream_resources(cudaStream_t stream) const;
  // `early`: the launch may begin before the one in front of it has ended.
  TileResources tile_resources(cudaStream_t stream, bool early) const;
  bool is_wide(const TileProblem& problem) const;
  void store_wide(const TileProblem& problem, const Target& target, cudaStream_t stream) const;
  StreamActivation activation() const { return {contract_.swiglu, sigma_}; }

  Contract contract_;
  std::int64_t hidden_;
  const float* sigma_;
  int multiprocessors_;
  int levels_;
  StreamDevice stream_device_;
  TileDevice tile_device_, wide_device_;
  DeviceBuffer pending_, barrier_;
};

}  // namespace samebits::engine::cuda::sm90_leaf
