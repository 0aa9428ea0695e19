// The ring of stream.cuh and the walk that its producer and its consumers share: turns of 64 k, several
// to a slot.
#pragma once

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/leaves.hpp"
#include "engine/cuda/sm90/stream_sizes.hpp"

namespace samebits::engine::cuda::stream {

// One stage of the block as this launch runs it.
template <class Phase_>
struct PhaseArguments {
  using Phase = Phase_;
  CUtensorMap weight[2], token[2];
  ShortLeafList leaves;
  std::int64_t rows;  // of the weights
  int tokens;
  int units;      // blocks' worth of rows
  int unit_rows;  // of each weight matrix
  int per_slot;   // turns
  int axis_turns;
  bool whole;  // slots are whole: one copy brings all the turns of an operand
  typename Phase_::Epilogue epilogue;

  // A slot: of every weight matrix its turns behind each other, then the tokens' turns. Weights by columns
  // lie in chunks of 32, each with all its turns.
  SAMEBITS_HD int part_bytes() const { return per_slot * unit_rows * kRowBytes; }
  SAMEBITS_HD int tokens_at() const { return Phase_::kParts * part_bytes(); }
  SAMEBITS_HD int chunk_bytes() const { return per_slot * kTurn * 64; }
};

struct Turn {
  int lane, k, row;
};

// The turns of this block, in order: units, lanes, leaves, k.
template <class Phase>
struct TurnWalk {
  const PhaseArguments<Phase>& phase;
  int rank, unit, lane = 0, leaf = 0, begin = 0, k = 0, left;

  __device__ TurnWalk(const PhaseArguments<Phase>& arguments, int cluster_rank)
      : phase(arguments), rank(cluster_rank), unit(static_cast<int>(blockIdx.x) - cluster_rank) {
    const int step = static_cast<int>(gridDim.x);
    const int units = unit < phase.units ? (phase.units - unit + step - 1) / step : 0;
    left = units * Phase::kLanes * phase.axis_turns;
  }
  __device__ Turn turn() const { return {lane, begin + k, (unit + rank) * phase.unit_rows}; }
  // Whole slots cut no axis short: all its turns, leaf or not, follow each other in k.
  __device__ void advance_slot() {
    left -= phase.per_slot;
    begin += phase.per_slot * kTurn;
    if (begin < phase.axis_turns * kTurn) return;
    begin = 0;
    if (++lane < Phase::kLanes) return;
    lane = 0;
    unit += static_cast<int>(gridDim.x);
  }
  __device__ void advance() {
    --left;
    k += kTurn;
    if (k < phase.leaves.step[leaf].length()) return;
    begin += phase.leaves.step[leaf].length();
    k = 0;
    if (++leaf < phase.leaves.count) return;
    leaf = begin = 0;
    if (++lane < Phase::kLanes) return;
    lane = 0;
    unit += static_cast<int>(gridDim.x);
  }
};

struct Ring {
  unsigned char* slot0;
  int slot_bytes, slots;
  std::uint64_t *full, *empty;
  __device__ unsigned char* slot(int index) const { return slot0 + index * slot_bytes; }
};

// All blocks of the grid meet once: a count of arrivals and a count of meetings.
struct Meeting {
  unsigned* counters;
  unsigned before;  // meetings so far, read before this block arrives

  __device__ static unsigned read(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
  }
  __device__ void arrive() const {
    __threadfence();
    if (atomicAdd(counters, 1u) != gridDim.x - 1) return;
    counters[0] = 0;
    __threadfence();
    atomicAdd(counters + 1, 1u);
  }
  __device__ bool is_over() const { return read(counters + 1) != before; }
};

}  // namespace samebits::engine::cuda::stream
