// Few tokens, leaf sm90: the weights are read once, at the speed of the memory. Every multiprocessor has its
// own rows of the weights and contracts them whole, leaf after leaf, so no sum crosses blocks and a contract
// without leaves costs the same. Two stages that follow each other are one launch: the weights of the second
// are on their way while the first ends.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cuda {

// Most tokens of a call. Beyond, the tensor cores have more to do than mma.sync's half of their speed allows
// in the time of the read: wgmma, in tiles or, where results are stored as they are, with the tokens as the
// narrow operand.
inline constexpr std::int64_t kStreamTokens = 32;

// result[token, row] of weights [rows, k] and tokens [tokens, k]. With an activation, weight[0] is gate and
// weight[1] up, contracted side by side. `lanes` 2: the second pair is contracted after the first, and the
// two roots are added (dX).
struct StreamProblem {
  Operand weight[2], token[2];
  int lanes = 1;
  std::int64_t k = 0;
  const Leaves* leaves = nullptr;
};

// How many blocks can be resident as clusters of 1, 2 and 4.
struct StreamDevice {
  int blocks[3] = {0, 0, 0};
};

// Once on every device, before a launch.
StreamDevice prepare_stream();

bool stream_serves(const StreamProblem& problem, int levels);

// Bytes of pending nodes: `levels` of every resident block.
std::size_t stream_pending_bytes(int multiprocessors, int levels);
inline constexpr std::size_t kStreamBarrierBytes = 8;  // zero before the first launch

struct StreamResources {
  StreamDevice device;
  float* pending = nullptr;
  int levels = 0;
  unsigned* barrier = nullptr;  // where the blocks of two stages meet
  bool bf16_nodes = false;
  Precision lanes_precision = Precision::f32;
  cudaStream_t stream = nullptr;
};

// The activation's share of a stage.
struct StreamActivation {
  Swiglu kind = Swiglu::one;
  const float* sigma = nullptr;
};

// Targets are the results': rows are tokens.
void stream_store(const StreamProblem& problem, const Target& target, const StreamResources& resources);
void stream_gate_up(const StreamProblem& problem, const GateUp& stage, const StreamActivation& activation,
                    const StreamResources& resources);
void stream_d_act(const StreamProblem& problem, const DAct& stage, const StreamActivation& activation,
                  const StreamResources& resources);
void stream_gate_up_down(const StreamProblem& gate_up, const GateUp& stage, const StreamProblem& down,
                         const Target& target, const StreamActivation& activation,
                         const StreamResources& resources);
void stream_d_act_hidden(const StreamProblem& d_act, const DAct& stage, const StreamProblem& d_hidden,
                         const Target& target, const StreamActivation& activation,
                         const StreamResources& resources);

}  // namespace samebits::engine::cuda
