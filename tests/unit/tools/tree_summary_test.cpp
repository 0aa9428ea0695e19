// The summary, which never walks the leaves, against a walk of them.
#include "shared/tree_summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/walk.hpp"

namespace samebits::tools {
namespace {

using numerics::AxisTree;

int depth_of(const AxisTree& tree, numerics::TreeNode node) {
  if (tree.is_leaf(node)) return 0;
  return 1 + std::max(depth_of(tree, tree.lower(node)), depth_of(tree, tree.upper(node)));
}

TEST(TreeSummary, EqualsAWalk) {
  for (const AxisRule rule : {AxisRule{Rule::max, 32},
                              {Rule::max, 17},
                              {Rule::halve, 0},
                              {Rule::halve, 3},
                              {Rule::halve, 40},
                              {Rule::block, 48},
                              {Rule::block, 16}}) {
    for (const std::int64_t granule : {1, 16}) {
      for (const std::int64_t length : {1, 15, 16, 17, 31, 32, 33, 208, 1000, 3072}) {
        const AxisTree tree{rule, granule, length, false};
        const TreeSummary summary = summarise(tree);
        std::map<std::int64_t, std::int64_t> lengths;
        std::int64_t leaves = 0;
        numerics::for_each_leaf(tree, 0, length, [&](const numerics::WalkStep& leaf) {
          ++leaves;
          ++lengths[leaf.end - leaf.begin];
        });
        EXPECT_EQ(summary.leaves, leaves) << length;
        EXPECT_EQ(summary.leaves_of_length, lengths) << length;
        EXPECT_EQ(summary.depth, depth_of(tree, tree.root())) << length;
      }
    }
  }
}

TEST(TreeSummary, OfAnEmptyAxisIsEmpty) { EXPECT_EQ(summarise({{Rule::max, 32}, 1, 0, false}).leaves, 0); }

TEST(TreeSummary, LengthDoesNotMatter) {
  const std::int64_t length = std::int64_t{1} << 60;
  EXPECT_EQ(summarise({{Rule::max, 32}, 1, length, false}).leaves, length / 32);
  EXPECT_EQ(summarise({{Rule::block, 1024}, 16, length, false}).depth, 50);
}

TEST(TreeSummary, EqualCuts) {
  EXPECT_EQ(equal_cut_degrees({{Rule::halve, 3}, 16, 12288, false}, 64),
            (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(equal_cut_degrees({{Rule::halve, 0}, 16, 12288, false}, 64), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(equal_cut_degrees({{Rule::block, 1024}, 16, 12288, false}, 64),
            (std::vector<std::int64_t>{1, 2, 3, 4, 6, 12}));
}

}  // namespace
}  // namespace samebits::tools
