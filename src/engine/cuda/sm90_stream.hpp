// Few tokens, leaf sm90: the weights are read once, at the speed of the memory, and the tokens are the narrow
// operand of wgmma. Every multiprocessor has its own rows of the weights and contracts them whole, leaf after
// leaf, so no sum crosses blocks and a contract without leaves costs the same.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cuda {

inline constexpr std::int64_t kStreamTokens = 128;  // most tokens of a call

// result[token, row] of weights [rows, k] and tokens [tokens, k]. With an activation, weight[0] is gate and
// weight[1] up, contracted side by side. `lanes` 2: the second pair is contracted after the first, and the
// two roots are added (dX).
struct StreamProblem {
  Operand weight[2], token[2];
  int lanes = 1;
  std::int64_t k = 0;
  const Leaves* leaves = nullptr;
  bool bf16_nodes = false;
  Precision lanes_precision = Precision::f32;
};

// What a launch may choose; no bit depends on it.
struct StreamTuning {
  int tokens = 8;   // columns of the narrow operand: 8, 16, 32, 64 or 128
  int rows = 32;    // of the weights, a block
  int cluster = 1;  // blocks that share the loads of the tokens
  int stages = 4;   // of the ring
};

// How many blocks can be resident as clusters of 1, 2 and 4.
struct StreamDevice {
  int blocks[3] = {0, 0, 0};
};

// Once on every device, before a launch.
StreamDevice prepare_stream();

bool stream_serves(const StreamProblem& problem, int levels);
StreamTuning choose_stream(const StreamProblem& problem, const StreamDevice& device);

struct StreamResources {
  StreamDevice device;
  float* pending = nullptr;
  int levels = 0;
  cudaStream_t stream = nullptr;
  bool early = false;  // may begin before the kernel in front has ended: the weights are not its results
};

// `target` is the result's: rows are tokens.
void stream_store(const StreamProblem& problem, const Target& target, const StreamResources& resources);
void stream_gate_up(const StreamProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                    const StreamResources& resources);
void stream_d_act(const StreamProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                  const StreamResources& resources);

}  // namespace samebits::engine::cuda
