#include "shared/tree_summary.hpp"

#include <algorithm>
#include <utility>

namespace samebits::tools {
namespace {

using numerics::AxisTree;
using numerics::TreeNode;

// A subtree depends on its length alone, and under `halve` on its depth: the few distinct ones are summarised
// once.
class Summariser {
 public:
  explicit Summariser(const AxisTree& tree) : tree_(tree) {}

  const TreeSummary& of(std::int64_t length, int depth) {
    const std::pair key{length, tree_.rule.rule == Rule::halve ? depth : 0};
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    TreeSummary summary;
    const TreeNode node{0, length, key.second};
    if (tree_.is_leaf(node)) {
      summary = {1, {{length, 1}}, 0};
    } else {
      const std::int64_t lower = tree_.split(node);
      for (const std::int64_t part : {lower, length - lower}) {
        const TreeSummary& child = of(part, depth + 1);
        summary.leaves += child.leaves;
        summary.depth = std::max(summary.depth, child.depth + 1);
        for (const auto& [leaf, count] : child.leaves_of_length) summary.leaves_of_length[leaf] += count;
      }
    }
    return known_.emplace(key, std::move(summary)).first->second;
  }

 private:
  const AxisTree& tree_;
  std::map<std::pair<std::int64_t, int>, TreeSummary> known_;
};

}  // namespace

TreeSummary summarise(const AxisTree& tree) {
  if (tree.length == 0) return {};
  return Summariser(tree).of(tree.length, 0);
}

std::vector<std::int64_t> equal_cut_degrees(const AxisTree& tree, std::int64_t most) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= std::min(most, tree.length); ++degree) {
    if (tree.length % degree != 0) continue;
    const std::int64_t part = tree.length / degree;
    bool between = true;
    for (std::int64_t cut = 1; cut < degree && between; ++cut) between = tree.cuts_between_leaves(cut * part);
    if (between) degrees.push_back(degree);
  }
  return degrees;
}

}  // namespace samebits::tools
