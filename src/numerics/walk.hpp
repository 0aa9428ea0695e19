// Post-order walks of an axis tree, as a stack machine sees them: push a value, then merge the two on top k
// times. Neither walk allocates. A walk over a shard leaves the nodes of its cover on the stack, lowest
// first.
#pragma once

#include "numerics/tree.hpp"

namespace samebits::numerics {

struct WalkStep {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int merges = 0;  // how often the two topmost stack entries are replaced by their node after this push
};

namespace detail {

// Visits `node` within [begin, end). `Stops(node)` says whether a node inside the shard is pushed as it is.
// `pending` delays each step by one so that the merges above it are known. Returns false when the shard cuts
// inside a leaf.
template <class Stops, class Visit>
constexpr bool walk_node(const AxisTree& tree, TreeNode node, std::int64_t begin, std::int64_t end,
                         const Stops& stops, WalkStep& pending, bool& has_pending, const Visit& visit) {
  if (node.end <= begin || node.begin >= end) return true;
  const bool covered = begin <= node.begin && node.end <= end;
  if (covered && stops(node)) {
    if (has_pending) visit(pending);
    pending = {node.begin, node.end, 0};
    has_pending = true;
    return true;
  }
  if (tree.is_leaf(node)) return false;
  if (!walk_node(tree, tree.lower(node), begin, end, stops, pending, has_pending, visit)) return false;
  if (!walk_node(tree, tree.upper(node), begin, end, stops, pending, has_pending, visit)) return false;
  if (covered) ++pending.merges;
  return true;
}

template <class Stops, class Visit>
constexpr bool walk(const AxisTree& tree, std::int64_t begin, std::int64_t end, const Stops& stops,
                    const Visit& visit) {
  if (begin >= end) return true;
  WalkStep pending{};
  bool has_pending = false;
  if (!walk_node(tree, tree.root(), begin, end, stops, pending, has_pending, visit)) return false;
  if (has_pending) visit(pending);
  return true;
}

}  // namespace detail

// Every leaf of [begin, end) in order. False (after some visits) when the interval cuts inside a leaf.
template <class Visit>
constexpr bool for_each_leaf(const AxisTree& tree, std::int64_t begin, std::int64_t end, const Visit& visit) {
  return detail::walk(
      tree, begin, end, [&](TreeNode node) { return tree.is_leaf(node); }, visit);
}

// A stretch of an axis whose first leaf may have begun before it and whose last leaf may go on behind it:
// what of it are whole leaves, counted from where the first of them began. `resumes` and `stays_open` say
// which ends lie inside a leaf; an end of the axis never does.
struct Stretch {
  std::int64_t begin = 0, end = 0;                // as given
  std::int64_t leaves_begin = 0, leaves_end = 0;  // leaves that end within it
  bool resumes = false, stays_open = false;
};
constexpr Stretch stretch_of(const AxisTree& tree, std::int64_t begin, std::int64_t end) {
  Stretch stretch{begin, end, begin, end, false, false};
  if (begin >= end) return stretch;
  const TreeNode first = tree.leaf_at(begin), last = tree.leaf_at(end - 1);
  stretch.resumes = first.begin < begin;
  stretch.stays_open = last.end > end;
  stretch.leaves_begin = first.begin;
  if (stretch.stays_open) stretch.leaves_end = last.begin;
  return stretch;
}

// One leaf of a stretch, or the part of it that lies there. `closes`: the leaf ends here, and `merges`
// follow.
struct LeafPart {
  std::int64_t begin = 0, end = 0;
  bool opens = true, closes = true;
  int merges = 0;
};
template <class Visit>
constexpr void for_each_leaf_part(const AxisTree& tree, const Stretch& stretch, const Visit& visit) {
  for_each_leaf(tree, stretch.leaves_begin, stretch.leaves_end, [&](const WalkStep& leaf) {
    const bool opens = leaf.begin >= stretch.begin;
    visit(LeafPart{opens ? leaf.begin : stretch.begin, leaf.end, opens, true, leaf.merges});
  });
  if (!stretch.stays_open) return;
  const bool opens = stretch.leaves_end >= stretch.begin;
  visit(LeafPart{opens ? stretch.leaves_end : stretch.begin, stretch.end, opens, false, 0});
}

// The nodes of the interval's cover: the fewest tree nodes that tile it.
template <class Visit>
constexpr bool for_each_cover_node(const AxisTree& tree, std::int64_t begin, std::int64_t end,
                                   const Visit& visit) {
  return detail::walk(
      tree, begin, end, [](TreeNode) { return true; }, visit);
}

constexpr std::int64_t count_cover_nodes(const AxisTree& tree, std::int64_t begin, std::int64_t end) {
  std::int64_t count = 0;
  const bool tiled = for_each_cover_node(tree, begin, end, [&](const WalkStep&) { ++count; });
  return tiled ? count : -1;
}

constexpr std::int64_t count_leaves(const AxisTree& tree) {
  std::int64_t count = 0;
  for_each_leaf(tree, 0, tree.length, [&](const WalkStep&) { ++count; });
  return count;
}

// Finishing a tree from covers that tile the whole axis. `boundary(i)` is the end of the i-th node of all
// covers, in order; every push is one of them. False when they are not nodes of this tree.
template <class Boundary, class Visit>
constexpr bool for_each_finish_step(const AxisTree& tree, std::int64_t nodes, const Boundary& boundary,
                                    const Visit& visit) {
  std::int64_t next = 0;
  const auto is_next = [&](TreeNode node) {
    if (next >= nodes || boundary(next) != node.end) return false;
    if ((next == 0 ? std::int64_t{0} : boundary(next - 1)) != node.begin) return false;
    ++next;
    return true;
  };
  return detail::walk(tree, 0, tree.length, is_next, visit) && next == nodes;
}

}  // namespace samebits::numerics
