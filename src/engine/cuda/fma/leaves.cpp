#include "engine/cuda/fma/leaves.hpp"

#include <algorithm>

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {
namespace {

constexpr std::uint32_t kEmits = 1u << 6;

std::uint32_t word_of(int length, bool emits, int merges) {
  return static_cast<std::uint32_t>(length) << 7 | (emits ? kEmits : 0u) | static_cast<std::uint32_t>(merges);
}

// One segment of `out.list`, rewritten in place. False when its nodes find no room.
bool rewrite(LeafSegment& segment, SegmentedLeaves& out) {
  int stack[64];  // the leaf that made each node pending in this segment
  int height = 0;
  LeafStep finish[kMostSegmentNodes];
  int maker[kMostSegmentNodes];
  int nodes = 0;
  const auto leave = [&](int leaf, int merges, bool emits) {
    if (out.nodes + nodes == kMostSegmentNodes) return false;
    maker[nodes] = leaf;
    finish[nodes++] = {word_of(0, emits, merges)};
    return true;
  };
  for (int i = segment.first_leaf; i < segment.first_leaf + segment.leaves; ++i) {
    LeafStep& step = out.list.step[i];
    const int inside = std::min(step.merges(), height), later = step.merges() - inside;
    height -= inside;
    // Merges with nodes of segments before come later, and so does whatever the node is merged into.
    const bool leaves_segment = later > 0 || step.emits();
    if (leaves_segment && !leave(i, later, step.emits())) return false;
    if (!leaves_segment) stack[height++] = i;
    step = {word_of(step.length(), leaves_segment, inside)};
  }
  for (int i = 0; i < height; ++i) {
    if (!leave(stack[i], 0, false)) return false;
    out.list.step[stack[i]].word |= kEmits;
  }
  // Nodes in the order of their leaves, which is the order in which the kernel emits them.
  segment.first_node = out.nodes;
  for (int n = 0; n < nodes; ++n) {
    int before = 0;
    for (int other = 0; other < nodes; ++other) before += maker[other] < maker[n] ? 1 : 0;
    out.finish[out.nodes + before] = finish[n];
  }
  out.nodes += nodes;
  return true;
}

bool cut(const Leaves& leaves, int segments, SegmentedLeaves& out) {
  out.list = leaves.list<FmaLeafList>();
  out.nodes = 0;
  std::int64_t length = 0;
  for (int i = 0; i < out.list.count; ++i) length += out.list.step[i].length();
  int leaf = 0;
  std::int64_t k = 0;
  out.segments = 0;
  for (int s = 0; s < segments; ++s) {
    LeafSegment segment;
    segment.first_leaf = leaf;
    segment.k_begin = static_cast<int>(k);
    const std::int64_t end = length * (s + 1) / segments;
    while (leaf < out.list.count && (k < end || s + 1 == segments)) k += out.list.step[leaf++].length();
    segment.leaves = leaf - segment.first_leaf;
    segment.k_end = static_cast<int>(k);
    if (segment.leaves > 0) out.segment[out.segments++] = segment;
  }
  if (out.segments > 1) {
    for (int s = 0; s < out.segments; ++s) {
      if (!rewrite(out.segment[s], out)) return false;
    }
  } else {  // what it emits are the cover's nodes, and nothing is left to do
    out.nodes = leaves.nodes();
    for (int n = 0; n < std::min(out.nodes, kMostSegmentNodes); ++n) out.finish[n] = {word_of(0, true, 0)};
  }
  out.levels = 0;
  for (int s = 0; s < out.segments; ++s) {
    const LeafSegment& segment = out.segment[s];
    int height = 0;
    for (int i = segment.first_leaf; i < segment.first_leaf + segment.leaves; ++i) {
      const LeafStep step = out.list.step[i];
      out.levels = std::max(out.levels, height);
      height += (step.emits() ? 0 : 1) - step.merges();
    }
  }
  return true;
}

}  // namespace

void cut_leaves(const Leaves& leaves, int segments, SegmentedLeaves& out) {
  while (!cut(leaves, segments, out)) segments /= 2;
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
