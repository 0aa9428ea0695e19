// Few tokens, leaf fma: each weight is read once, through a ring of asynchronous copies in shared memory, by
// the block that owns its rows. A block is a tile of outer indices and one segment of the leaves. One warp
// feeds the ring and a few widen x; the warps of the chains wait for nobody but them. Bound by memory up to
// some 8 tokens and by FFMA beyond.
#pragma once

#include <functional>

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/fma/leaves.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

inline constexpr int kStreamTokens = 32;  // most of a launch
inline constexpr int kMostStages = 8;     // of the ring
inline constexpr int kStreamChunk = 64;   // k of a stage of the ring
inline constexpr int kWideBuffers = 3;    // chunks of x that are widened at once
inline constexpr int kMostWideners = 3;   // warps that widen x

// Results of a thread that kernels are built for, by how the weights lie.
struct StreamShare {
  int tokens, rows;
};
inline constexpr StreamShare kRowShares[] = {{1, 1}, {4, 1}, {4, 4}, {8, 4}, {16, 4}};
inline constexpr StreamShare kColumnShares[] = {{1, 2}, {4, 2}, {8, 4}, {16, 4}};
inline constexpr StreamShare kGateUpShares[] = {{1, 1}, {4, 1}, {4, 3}, {8, 3}, {16, 3}};

// What a launch may choose; no bit depends on it. A thread has rows x tokens results; lanes lie along the
// rows.
struct StreamTuning {
  int tokens = 0, rows = 0;              // of a thread: a StreamShare
  int token_groups = 0, row_groups = 0;  // of a block; row_groups is a multiple of 8
  int segments = 1;
  int stages = 0;
  int levels = 0;  // of pending nodes in shared memory
  int shared_bytes = 0;
  int threads() const { return token_groups * row_groups; }  // with chains
  int warps() const { return (threads() + 31) / 32; }
  int wideners() const {  // warps
    const int wanted = tokens * token_groups / 8;
    return wanted < 1 ? 1 : wanted > kMostWideners ? kMostWideners : wanted;
  }
  int block_threads() const { return 32 * (1 + wideners() + warps()); }
  int tile() const { return rows * row_groups; }
};

// result[t, r] = sum over k of x[t, k] * weight[r, k]. `gate_up`: one x, half a tile from either weight.
// `lanes`: as many contractions of one shape, each with its x and weight.
struct StreamProblem {
  Operand x[2], weight[2];
  int lanes = 1;
  bool gate_up = false;
  bool bf16_nodes = false;
  int k = 0;
  bool by_columns() const { return weight[0].k_stride != 1; }
};

// Where G, U and A go, and how A is made.
struct StreamActivation {
  View gate, up, act;
  bool keep = true;
  Swiglu kind = Swiglu::one;
  const float* sigma = nullptr;
};

struct StreamLaunch {
  StreamTuning tuning;
  const SegmentedLeaves* leaves = nullptr;
  std::int64_t lane_stride = 0;  // of the target, in elements
  int multiprocessors = 0;
  bool early = false;  // the weights are older than the kernel in front, which may still be running
};

// Every launch that fits, with the cycles it is thought to take.
void for_each_stream(const StreamProblem& problem, const Leaves& leaves, int multiprocessors,
                     const std::function<void(const StreamTuning&, double)>& visit);

// The one thought to be fastest. Zero threads: none fits.
StreamTuning choose_stream(const StreamProblem& problem, const Leaves& leaves, int multiprocessors);

// Completes a choice once the leaves are cut: the ring takes what pending nodes leave of shared memory.
bool fit_stream(const StreamProblem& problem, int levels, StreamTuning& tuning);

// Once on every device, before a launch.
void prepare_stream_rows();
void prepare_stream_columns();
void prepare_stream_gate_up();

// A share that no kernel is built for is Error(internal).
void stream_rows(const StreamProblem& problem, const Target& target, const StreamLaunch& launch,
                 cudaStream_t stream);
void stream_columns(const StreamProblem& problem, const Target& target, const StreamLaunch& launch,
                    cudaStream_t stream);
void stream_gate_up(const StreamProblem& problem, const StreamActivation& activation,
                    const StreamLaunch& launch, cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
