// The ring of tiles.cuh. Its stages bring operands to the warpgroups; at the end of a tile some are lent
// to them for results, which the copy engine writes out while the next tile is multiplied. A warpgroup only
// says that a stage is written: its clerk, a warp, sends it off and gives the stage back.
#pragma once

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/sm90/sigma_cache.cuh"

namespace samebits::engine::cuda::tiles {

inline constexpr int kTurn = 64;  // k of one stage of the ring

inline constexpr int kGroups = 2;  // warpgroups that contract, 64 rows of a tile each
inline constexpr int kRows = 64 * kGroups;
inline constexpr int kThreads = 128 * (1 + kGroups);

// A tile of so many columns of the right operand.
template <int kWidth_>
struct Shape {
  static constexpr int kWidth = kWidth_;
  static constexpr int kRegisters = kWidth / 2;  // of a thread, for accumulators
  static constexpr int kLeftBytes = kRows * kTurn * 2, kRightBytes = kWidth * kTurn * 2;
  static constexpr int kStageBytes = kLeftBytes + kRightBytes;
  static constexpr int kStages = 192 * 1024 / kStageBytes;
  // Results lie in boxes, swizzled as operands are: rows of 128 bytes, or of 64 where the columns are no
  // multiple of 64. A warpgroup has 64 rows of a box.
  static constexpr int kBoxColumns = kWidth == 192 ? 32 : 64;
  static constexpr int kBoxBytes = kRows * kBoxColumns * 2, kHalfBoxBytes = 64 * kBoxColumns * 2;
  static constexpr int kLeftBoxes = kLeftBytes / kBoxBytes;
  static constexpr int kBoxes = kLeftBoxes + kRightBytes / kBoxBytes;  // in a stage
};

template <class Shape>
struct Ring {
  static constexpr int kStages = Shape::kStages;

  unsigned char *left_begin, *right_begin;
  std::uint64_t *full_begin, *empty_begin, *written_begin;
  float* sigma;

  static constexpr int shared_bytes(bool with_sigma) {
    return 1024 + kStages * (Shape::kStageBytes + 16 + 8 * kGroups) + (with_sigma ? SigmaCache::kBytes : 0);
  }
  __device__ explicit Ring(unsigned char* memory) {
    left_begin = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
    right_begin = left_begin + kStages * Shape::kLeftBytes;
    full_begin = reinterpret_cast<std::uint64_t*>(right_begin + kStages * Shape::kRightBytes);
    empty_begin = full_begin + kStages;
    written_begin = empty_begin + kStages;
    sigma = reinterpret_cast<float*>(written_begin + kStages * kGroups);
  }
  __device__ unsigned char* left(int stage) const { return left_begin + stage * Shape::kLeftBytes; }
  __device__ unsigned char* right(int stage) const { return right_begin + stage * Shape::kRightBytes; }
  __device__ unsigned char* box(int stage, int index) const {
    constexpr int kLeft = Shape::kLeftBoxes;
    return index < kLeft ? left(stage) + index * Shape::kBoxBytes
                         : right(stage) + (index - kLeft) * Shape::kBoxBytes;
  }
  __device__ std::uint64_t* full(int stage) const { return full_begin + stage; }
  __device__ std::uint64_t* empty(int stage) const { return empty_begin + stage; }
  __device__ std::uint64_t* written(int stage, int group) const {
    return written_begin + stage * kGroups + group;
  }

  // Tells every block of the cluster that this warp is done with a stage.
  __device__ void release(int stage, int cluster) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < cluster) barrier_arrive_at(empty(stage), static_cast<std::uint32_t>(lane));
  }
};

// A warpgroup's results on their way out, chunk by chunk: `stages` stages each.
template <class Shape>
struct Outlet {
  using Ring = tiles::Ring<Shape>;
  const Ring& ring;
  int group, cluster, stages;  // blocks of a cluster; stages of a chunk

  // This warpgroup's 64 rows of a box of the chunk that begins at a stage.
  __device__ unsigned char* rows(int first, int box) const {
    const int stage = box < Shape::kBoxes ? first : after(first);
    return ring.box(stage, box % Shape::kBoxes) + group * Shape::kHalfBoxBytes;
  }
  // The first stage of the next chunk, free or filled by the producer.
  __device__ int open(RingPlace& at) const {
    const int first = at.stage;
    for (int i = 0; i < stages; ++i) {
      barrier_wait(ring.full(at.stage), at.phase);
      at.advance(Ring::kStages);
    }
    return first;
  }
  // This warp has written its part of a chunk.
  __device__ void close(int first) const {
    fence_shared_for_copies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.written(first, group));
  }

  // The clerk's side: waits until a chunk is written, lets one thread send it, and gives its stages back. Bit
  // s of `phases` is the phase in which stage s will next be written.
  template <class Send>
  __device__ void dispatch(RingPlace& at, std::uint32_t& phases, const Send& send) const {
    const int first = at.stage, lane = static_cast<int>(threadIdx.x) % 32;
    barrier_wait(ring.written(first, group), phases >> first & 1u);
    phases ^= 1u << first;
    if (lane == 0) {
      send(first);
      commit_stores();
      wait_until_read();
    }
    __syncwarp();
    for (int i = 0; i < stages; ++i) {
      // As the four warps of the group would.
      if (lane < 4 * cluster) barrier_arrive_at(ring.empty(at.stage), static_cast<std::uint32_t>(lane / 4));
      at.advance(Ring::kStages);
    }
  }

 private:
  __device__ static int after(int stage) { return stage + 1 == Ring::kStages ? 0 : stage + 1; }
};

}  // namespace samebits::engine::cuda::tiles
