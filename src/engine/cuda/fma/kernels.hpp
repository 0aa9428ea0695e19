// Which of the fast kernels serves a contraction whose leaf is fma, and the memory they share. What none of
// them serves (odd strides, misaligned operands, trees of too many leaves) is left to the plain kernels.
#pragma once

#include <array>

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/fma/stream.hpp"
#include "engine/cuda/fma/tiles.hpp"
#include "engine/engine.hpp"
#include "gpu/device_buffer.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

// Up to here tokens are streamed, in slices of kStreamTokens; beyond, a tile of 128 is cheaper.
inline constexpr std::int64_t kMostStreamed = 96;

class Kernels {
 public:
  // `levels`: most nodes that are pending at once on any axis of the problem.
  Kernels(const Problem& problem, int device, int multiprocessors, int levels);

  enum class GateUpDone { nothing, contracted, activated };
  GateUpDone gate_up(const Contraction& gate, const Contraction& up, const StreamActivation& activation,
                     cudaStream_t stream);
  bool contract(const Contraction& problem, cudaStream_t stream);
  // dX: both contractions over all of I, whose roots are added into the target of `gate`.
  bool contract_lanes(const Contraction& gate, const Contraction& up, Precision lanes, cudaStream_t stream);

  std::size_t workspace_bytes() const { return nodes_.bytes() + pending_.bytes(); }

 private:
  struct Chosen {  // a tuning, and what it was chosen for
    std::int64_t tokens = -1, outer = 0, k = 0;
    int leaves = 0, levels = 0, lanes = 0;
    bool columns = false, gate_up = false;
    StreamTuning tuning;
    bool operator==(const Chosen& other) const;
  };

  bool plan_stream(const StreamProblem& problem, const Leaves& leaves, StreamLaunch& how);
  bool stream_slice(const StreamProblem& problem, const Leaves& leaves, const Target& target, Precision lanes,
                    bool early, cudaStream_t stream);
  bool stream_all(const StreamProblem& problem, const Leaves& leaves, const Target& target, Precision lanes,
                  cudaStream_t stream);
  bool tiles_all(const TilesProblem& problem, cudaStream_t stream);

  int multiprocessors_;
  TilesPending tiles_pending_;
  DeviceBuffer nodes_, pending_;  // of segments run side by side; of tiles
  SegmentedLeaves segmented_;     // of the launch in hand
  std::array<Chosen, 16> chosen_;
  std::size_t next_chosen_ = 0;
  // The stream whose last kernel of ours is gate and up: weights that follow on it are older than that
  // kernel.
  cudaStream_t after_gate_up_ = nullptr;
  bool is_after_gate_up_ = false;
};

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
