// The binary tree of an axis (docs/numerics.md section 2): a pure function of the rule, the granule and the
// length.
#pragma once

#include <cstdint>

#include "numerics/hd.hpp"
#include "numerics/leaf_table.hpp"
#include "samebits/contract.hpp"

namespace samebits::numerics {

struct TreeNode {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int depth = 0;
  SAMEBITS_HD constexpr std::int64_t length() const { return end - begin; }
};

// No tree is deeper: every split leaves both parts shorter, and `max` and `block` halve up to rounding.
inline constexpr int kMaxTreeDepth = 64;

struct AxisTree {
  AxisRule rule{};
  std::int64_t granule = 1;
  std::int64_t length = 0;
  bool moved = false;  // the control of `verify`: the first split stands one granule off, and a single leaf
                       // is cut in two

  SAMEBITS_HD constexpr TreeNode root() const { return {0, length, 0}; }

  SAMEBITS_HD constexpr bool is_leaf(TreeNode node) const {
    if (moved && node.depth == 0 && node.length() >= 2 * granule) return false;
    return is_ruled_leaf(node);
  }

  // Where an inner node is cut.
  SAMEBITS_HD constexpr std::int64_t split(TreeNode node) const {
    if (!moved || node.depth != 0) return ruled_split(node);
    if (is_ruled_leaf(node)) return node.begin + halfway(node);
    const std::int64_t ruled = ruled_split(node);
    if (ruled + granule < node.end) return ruled + granule;
    return ruled - granule > node.begin ? ruled - granule : ruled;
  }

  SAMEBITS_HD constexpr TreeNode lower(TreeNode node) const {
    return {node.begin, split(node), node.depth + 1};
  }
  SAMEBITS_HD constexpr TreeNode upper(TreeNode node) const {
    return {split(node), node.end, node.depth + 1};
  }

  // The leaf that holds `position`, which lies inside the axis.
  SAMEBITS_HD constexpr TreeNode leaf_at(std::int64_t position) const {
    TreeNode node = root();
    while (!is_leaf(node)) node = position < split(node) ? lower(node) : upper(node);
    return node;
  }

  // Whether [begin, middle) and [middle, end) are the two parts of one node.
  SAMEBITS_HD constexpr bool joins(std::int64_t begin, std::int64_t middle, std::int64_t end) const {
    TreeNode node = root();
    while (!is_leaf(node)) {
      const std::int64_t cut = split(node);
      if (node.begin == begin && node.end == end) return cut == middle;
      node = middle < cut ? lower(node) : upper(node);
      if (middle <= node.begin || middle >= node.end) return false;
    }
    return false;
  }

  // Whether a shard may end at `position`: an end of the axis, or a boundary between two leaves.
  SAMEBITS_HD constexpr bool cuts_between_leaves(std::int64_t position) const {
    if (position == 0 || position == length) return true;
    if (position < 0 || position > length) return false;
    TreeNode node = root();
    while (!is_leaf(node)) {
      const std::int64_t middle = split(node);
      if (position == middle) return true;
      node = position < middle ? lower(node) : upper(node);
    }
    return false;
  }

 private:
  SAMEBITS_HD constexpr std::int64_t halfway(TreeNode node) const {
    const std::int64_t half = node.length() / (2 * granule) * granule;
    return half > granule ? half : granule;
  }
  SAMEBITS_HD constexpr bool is_ruled_leaf(TreeNode node) const {
    if (rule.rule == Rule::halve) return node.depth >= rule.value || node.length() < 2 * granule;
    return node.length() <= rule.value;
  }
  SAMEBITS_HD constexpr std::int64_t ruled_split(TreeNode node) const {
    if (rule.rule != Rule::block) return node.begin + halfway(node);
    const std::int64_t leaves = (node.length() + rule.value - 1) / rule.value;
    std::int64_t below = 1;  // the largest power of two below `leaves`
    while (below * 2 < leaves) below *= 2;
    return node.begin + below * rule.value;
  }
};

constexpr AxisTree axis_tree(const Contract& contract, const AxisRule& rule, std::int64_t length) {
  return {rule, granule_of(contract.leaf), length, false};
}

}  // namespace samebits::numerics
