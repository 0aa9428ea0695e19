#include "engine/cuda/sm90/stream_tuning.hpp"

#include <algorithm>

#include "engine/cuda/sm90/stream_sizes.hpp"

namespace samebits::engine::cuda::stream {
namespace {

constexpr int kShared = 226 * 1024;
constexpr int kSlotGoal = 28 * 1024;     // a slot holds as many turns as stay below this, or one
constexpr int kMostPieces = 4;           // of 64 k, weights by columns: a copy counts 256 at most
constexpr int kPendingMost = 40 * 1024;  // of shared memory

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The rows of a block that leave the busiest one the least to read; the larger of equals.
int rows_of(const PhaseShape& shape, int blocks) {
  const int granule = shape.columns ? 32 : 8;
  int best = granule;
  std::int64_t least = 0;
  for (int rows = std::max(granule, shape.most_rows / granule * granule); rows >= granule; rows -= granule) {
    const std::int64_t share = ceil_div(ceil_div(shape.rows, rows), blocks) * rows;
    if (least == 0 || share < least) {
      least = share;
      best = rows;
    }
  }
  return best;
}

std::int64_t share_of(const PhaseShape& shape, int blocks) {
  const int rows = rows_of(shape, blocks);
  return ceil_div(ceil_div(shape.rows, rows), blocks) * rows * shape.parts;
}

PhaseTuning tune(const PhaseShape& shape, int tokens, int blocks) {
  PhaseTuning tuning;
  tuning.rows = rows_of(shape, blocks);
  const int turn_bytes = (shape.parts * tuning.rows + tokens) * kRowBytes;
  tuning.per_slot = std::clamp(kSlotGoal / turn_bytes, 1, kMostPieces);
  // A slot that one copy brings ends no later than its leaf.
  while (shape.common_turns > 0 && shape.common_turns % tuning.per_slot != 0) --tuning.per_slot;
  tuning.slot_bytes = tuning.per_slot * turn_bytes;
  tuning.units = static_cast<int>(ceil_div(shape.rows, tuning.rows));
  return tuning;
}

}  // namespace

int token_columns(std::int64_t tokens) {
  int columns = 8;
  while (columns < tokens) columns *= 2;
  return columns;
}

StreamTuning choose_stream(int tokens, const PhaseShape& first, const PhaseShape* second,
                           const StreamDevice& device) {
  StreamTuning tuning;
  // Clusters leave multiprocessors idle where they do not fit; the larger one is taken when that costs
  // nothing.
  std::int64_t least = 0;
  for (const int cluster : {4, 2, 1}) {
    const int blocks = device.blocks[cluster / 2];
    if (blocks == 0 || (cluster > 1 && tokens / cluster < 8)) continue;
    const std::int64_t share = share_of(first, blocks) + (second != nullptr ? share_of(*second, blocks) : 0);
    if (least != 0 && share >= least) continue;
    least = share;
    tuning.cluster = cluster;
  }
  const int resident = device.blocks[tuning.cluster / 2];
  tuning.first = tune(first, tokens, resident);
  if (second != nullptr) tuning.second = tune(*second, tokens, resident);
  const int units = std::max(tuning.first.units, tuning.second.units);
  tuning.blocks = std::min(static_cast<int>(ceil_div(units, tuning.cluster)) * tuning.cluster, resident);

  int pending = first.values * first.pending;
  if (second != nullptr) pending = std::max(pending, second->values * second->pending);
  const int pending_bytes = pending * kConsumers * static_cast<int>(sizeof(float));
  tuning.shared_pending = pending_bytes <= kPendingMost;
  const int fixed = 1024 + kBarrierBytes + (tuning.shared_pending ? pending_bytes : 0);
  tuning.slot_bytes = std::max(tuning.first.slot_bytes, tuning.second.slot_bytes);
  tuning.slots = std::min(kMostSlots, (kShared - fixed) / tuning.slot_bytes);
  tuning.shared_bytes = fixed + tuning.slots * tuning.slot_bytes;
  return tuning;
}

}  // namespace samebits::engine::cuda::stream
