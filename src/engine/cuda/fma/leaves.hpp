// The leaves of a contraction as the fma kernels run them: one list, or cut into segments that blocks run
// side by side, each leaving the nodes that tile it, and the merges that are then left to do.
#pragma once

#include <cstdint>

#include "engine/cuda/leaves.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

// 4 KB and a little of a kernel's parameters: 1024 leaves of the longest Qwen3 axes.
using FmaLeafList = LeafList<1030>;

inline constexpr int kMostSegments = 16;
inline constexpr int kMostSegmentNodes = 16;  // of all segments of one contraction

struct LeafSegment {
  int first_leaf = 0, leaves = 0;
  int k_begin = 0, k_end = 0;
  int first_node = 0;
};

struct SegmentedLeaves {
  FmaLeafList list;  // merges and emissions are those inside a segment
  int segments = 0;
  LeafSegment segment[kMostSegments];
  int nodes = 0;   // of all segments
  int levels = 0;  // most nodes pending at once in one segment, beside the one just made
  // After node i is pushed: merges, and whether the top is then a node of the cover.
  LeafStep finish[kMostSegmentNodes];
};

// As many segments as asked for, or fewer where their nodes would be too many. One segment emits what the
// whole list emits and needs no finish.
void cut_leaves(const Leaves& leaves, int segments, SegmentedLeaves& out);

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
