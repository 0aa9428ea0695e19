// The rings of wide.cuh, and what else a block keeps in shared memory.
#pragma once

#include <algorithm>

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/sm90/wide.hpp"

namespace samebits::engine::cuda::wide {

inline constexpr int kRows = 64;  // of the weights, a block
inline constexpr int kBox = 64;   // k of a box; operands come in boxes
inline constexpr int kMostStages = 8;
inline constexpr int kShared = 226 * 1024;
inline constexpr int kPendingMost = 64 * 1024;  // of shared memory

// So many tokens a warpgroup, warpgroups side by side, and parts of a block that contract apart from each
// other, each fed by a ring of its own. A stage holds so many boxes of each operand, fewer where a leaf ends.
template <int kWidth_, int kGroups_, int kParts_, int kBoxes_>
struct Shape {
  static constexpr int kWidth = kWidth_, kGroups = kGroups_, kParts = kParts_, kBoxes = kBoxes_;
  static constexpr int kTokens = kWidth * kGroups;
  static constexpr int kCluster = static_cast<int>(kWideTokens) / kTokens;  // blocks with the same weights
  static constexpr int kRegisters = kWidth / 2;                             // of a thread, for accumulators
  static constexpr int kPartThreads = 128 * kGroups, kConsumers = kPartThreads * kParts;
  static constexpr int kThreads = kConsumers + 32 * kParts;  // and a warp that feeds each part
  static constexpr int kTurn = kBox * kBoxes;
  static constexpr int kWeightBox = kRows * kBox * 2, kTokenBox = kTokens * kBox * 2;  // bytes
  static constexpr int kStageBytes = kBoxes * (kWeightBox + kTokenBox);
  static constexpr int kPendingBytes = kRegisters * kPartThreads * 4;  // a level
  static constexpr int kBarrierBytes = (2 * kMostStages + 2) * 8 * kParts;
};

// Shared memory of a launch: pending nodes, where there is room for all of them, and as many stages of every
// part as remain.
struct Room {
  bool pending;
  int stages;
  int bytes;
};
template <class Shape>
Room room_for(int levels) {
  const int wanted = levels * Shape::kPendingBytes;
  const bool pending = wanted <= kPendingMost;
  const int fixed = 1024 + Shape::kBarrierBytes + (pending ? wanted : 0),
            stage = Shape::kStageBytes * Shape::kParts;
  const int stages = std::min((kShared - fixed) / stage, kMostStages);
  return {pending, stages, fixed + stages * stage};
}

// The ring of one part.
template <class Shape>
struct Ring {
  int part, stages;
  unsigned char* begin;
  std::uint64_t* barriers;  // of all parts: full and empty ones of every stage; then the turns
  float4* pending;          // of all parts

  __device__ Ring(unsigned char* memory, int stage_count, int of_part) : part(of_part), stages(stage_count) {
    begin = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
    barriers = reinterpret_cast<std::uint64_t*>(begin + Shape::kParts * stages * Shape::kStageBytes);
    pending = reinterpret_cast<float4*>(barriers + Shape::kBarrierBytes / 8);
    begin += part * stages * Shape::kStageBytes;
  }
  __device__ unsigned char* weights(int stage, int box) const {
    return begin + stage * Shape::kStageBytes + box * Shape::kWeightBox;
  }
  __device__ unsigned char* tokens(int stage, int box) const {
    return weights(stage, Shape::kBoxes) + box * Shape::kTokenBox;
  }
  __device__ std::uint64_t* full(int stage) const { return barriers + part * 2 * kMostStages + stage; }
  __device__ std::uint64_t* empty(int stage) const { return full(stage) + kMostStages; }
  __device__ std::uint64_t* turn(int of_part) const {
    return barriers + Shape::kParts * 2 * kMostStages + of_part;
  }

  __device__ void init() const {
    constexpr int kWarps = Shape::kPartThreads / 32;
    for (int stage = 0; stage < stages; ++stage) {
      barrier_init(full(stage), 1);
      barrier_init(empty(stage), kWarps * Shape::kCluster);
    }
    barrier_init(turn(part), Shape::kPartThreads);
  }

  // Tells every block of the cluster that this warp is done with a stage.
  __device__ void release(int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < Shape::kCluster) barrier_arrive_at(empty(stage), static_cast<std::uint32_t>(lane));
  }

  // The pending nodes go from leaf to leaf, and with them from part to part: `leaf` says whose they are, and
  // in which phase of its barrier.
  __device__ void take_nodes(const RingPlace& leaf) const {
    if constexpr (Shape::kParts > 1) barrier_wait(turn(part), part == 0 ? leaf.phase ^ 1u : leaf.phase);
  }
  __device__ void pass_nodes() const {
    if constexpr (Shape::kParts > 1) barrier_arrive(turn((part + 1) % Shape::kParts));
  }
};

}  // namespace samebits::engine::cuda::wide
