// How a stream launch is cut. Threads of a block want many chains each (operands are reused from registers),
// blocks want to fill the multiprocessors once, and segments of the leaves make blocks where rows are few.
// The times below are of an H200, in cycles; only their order matters.
#include <algorithm>
#include <limits>

#include "engine/cuda/fma/stream.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {
namespace {

constexpr int kSharedBytes = 226 * 1024;  // and the barriers
constexpr int kFewestStages = 3;
constexpr double kBytesPerCycle = 2200;     // of the device's memory
constexpr double kBlockBytesPerCycle = 40;  // of one multiprocessor
constexpr double kBlockCycles = 3000;       // to fill the ring and to store
constexpr double kFinishCycles = 4500;      // of the kernel that merges segments

constexpr int kFewestThreads = 32;
// With chains; as stream_chain_threads.
int most_threads(const StreamShare& share) {
  const int results = share.tokens * share.rows;
  return results <= 4 ? 512 : results <= 32 ? 256 : 128;
}

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

int stage_bytes(int tile, int x_tokens) {
  return tile * kStreamChunk * 2 + (x_tokens * kStreamChunk * 2 + 1023) / 1024 * 1024;
}

// By rows, boxes of whole groups of 8 lines, where the swizzle repeats; by columns, one box.
bool fits_boxes(const StreamProblem& problem, int tile) {
  if (problem.gate_up) return tile % 16 == 0 && tile <= 512;
  if (problem.by_columns()) return tile <= 256;
  return tile <= 256 || (tile % 16 == 0 && tile <= 512);
}

// What is in shared memory beside the ring and the pending nodes: x widened.
int fixed_bytes(const StreamTuning& tuning) {
  const int pitch = tuning.tokens == 1 ? 1 : kStreamTokens;
  return kWideBuffers * kStreamChunk * pitch * 4;
}

int level_bytes(const StreamProblem& problem, const StreamTuning& tuning) {
  const int results = tuning.tokens * tuning.rows;
  return (problem.bf16_nodes ? (results + 1) / 2 : results) * 4 * 32 * tuning.warps();
}

// Issue slots of a thread for one k.
double slots(const StreamProblem& problem, const StreamTuning& tuning) {
  const double results = tuning.tokens * tuning.rows;
  const double x = std::max(1.0, tuning.tokens / 4.0);
  return results + tuning.rows + x + (problem.by_columns() ? 1.0 : tuning.rows / 4.0) + 2.5;
}

double cycles(const StreamProblem& problem, const StreamTuning& tuning, std::int64_t leaves, int blocks,
              int multiprocessors) {
  const double busy = (tuning.threads() + 127) / 128;            // warps of a scheduler
  const double waits = busy > 2 ? 1.05 : busy > 1 ? 1.15 : 1.4;  // for what few warps cannot cover
  const double k = static_cast<double>(problem.k) / tuning.segments;
  const double results = tuning.tokens * tuning.rows;
  const double leaf_ends = (problem.bf16_nodes ? 2.2 : 2.0) * results + 60.0;
  double block = k * std::max(waits * busy * slots(problem, tuning), 6.0);
  block += busy * static_cast<double>(leaves) / tuning.segments * leaf_ends;
  block += k / kStreamChunk * (50.0 + 40.0 * busy);
  const int waves = ceil_div(blocks, multiprocessors);
  const double compute = waves * (block + kBlockCycles);
  const double bytes =
      2.0 * problem.k * static_cast<double>(problem.weight[0].outer) * (problem.gate_up ? 2 : problem.lanes);
  const double memory =
      bytes / std::min(kBytesPerCycle, blocks * kBlockBytesPerCycle) + (waves - 1) * kBlockCycles;
  const double finish = tuning.segments > 1 || problem.lanes > 1 ? kFinishCycles : 0.0;
  return std::max(compute, memory) + 0.1 * std::min(compute, memory) + finish;
}

}  // namespace

bool fit_stream(const StreamProblem& problem, int levels, StreamTuning& tuning) {
  const int x_tokens = tuning.tokens * tuning.token_groups;
  const int stage = stage_bytes(tuning.tile(), x_tokens);
  const std::int64_t rest =
      std::int64_t{kSharedBytes} - fixed_bytes(tuning) - std::int64_t{levels} * level_bytes(problem, tuning);
  tuning.stages =
      static_cast<int>(std::min<std::int64_t>(kMostStages, std::max<std::int64_t>(rest, 0) / stage));
  tuning.levels = levels;
  tuning.shared_bytes = tuning.stages * stage + fixed_bytes(tuning) + levels * level_bytes(problem, tuning);
  return tuning.stages >= kFewestStages;
}

void for_each_stream(const StreamProblem& problem, const Leaves& leaves, int multiprocessors,
                     const std::function<void(const StreamTuning&, double)>& visit) {
  const auto outer = problem.weight[0].outer;
  const auto tokens = static_cast<int>(problem.x[0].outer);
  const int matrices = problem.gate_up ? 2 : 1;
  using Shares = std::span<const StreamShare>;
  const Shares shares = problem.gate_up        ? Shares(kGateUpShares)
                        : problem.by_columns() ? Shares(kColumnShares)
                                               : Shares(kRowShares);
  for (const StreamShare share : shares) {
    if (share.tokens == 1 && tokens > 1) continue;
    if (share.tokens > 4 && share.tokens / 2 >= tokens) continue;
    StreamTuning tuning;
    tuning.tokens = share.tokens;
    tuning.rows = share.rows;
    tuning.token_groups = ceil_div(tokens, share.tokens);
    const int most = most_threads(share) / tuning.token_groups;
    for (tuning.row_groups = 8; tuning.row_groups <= most; tuning.row_groups += 8) {
      const int tiles = ceil_div(outer * matrices, tuning.tile());
      if (tuning.threads() < kFewestThreads || !fits_boxes(problem, tuning.tile())) continue;
      for (tuning.segments = 1; tuning.segments <= kMostSegments; tuning.segments *= 2) {
        if (tuning.segments > leaves.count() || (problem.gate_up && tuning.segments > 1)) break;
        // A segment keeps about log2 fewer nodes pending than the whole.
        int levels = leaves.levels();
        for (int s = tuning.segments; s > 1 && levels > 0; s /= 2) --levels;
        if (!fit_stream(problem, levels, tuning)) continue;
        const int blocks = tiles * tuning.segments * problem.lanes;
        visit(tuning, cycles(problem, tuning, leaves.count(), blocks, multiprocessors));
      }
      if (tiles == 1 && tuning.threads() >= kFewestThreads) break;
    }
  }
}

StreamTuning choose_stream(const StreamProblem& problem, const Leaves& leaves, int multiprocessors) {
  struct {
    StreamTuning tuning;
    double cycles = std::numeric_limits<double>::infinity();
  } best;
  for_each_stream(problem, leaves, multiprocessors, [&best](const StreamTuning& tuning, double time) {
    if (time < best.cycles) best = {tuning, time};
  });
  return best.tuning;
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
