// A sequence that arrives in stretches: its leaves are the tree's, whatever the cuts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "numerics/walk.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using numerics::AxisTree;
using numerics::LeafPart;
using numerics::Stretch;
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

AxisTree random_tree(Random& random) {
  const std::int64_t granule = uniform(random, 0, 1) == 0 ? 1 : 16;
  const auto rule = static_cast<Rule>(uniform(random, 0, 2));
  const std::int64_t value = rule == Rule::halve ? uniform(random, 0, 5) : granule * uniform(random, 1, 9);
  return {{rule, value}, granule, uniform(random, 1, 700), uniform(random, 0, 5) == 0};
}

TEST(Stretch, PartsOfLeavesJoinToLeavesAndTheirNodes) {
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    const AxisTree tree = random_tree(random);
    SCOPED_TRACE(fmt::format("round {}", round));
    std::vector<std::int64_t> cuts = {0, tree.length};
    for (int i = 0; i < 4; ++i) cuts.push_back(uniform(random, 0, tree.length));
    std::sort(cuts.begin(), cuts.end());
    Spans leaves, expected, nodes;
    numerics::for_each_leaf(tree, 0, tree.length, [&](const numerics::WalkStep& leaf) {
      expected.emplace_back(leaf.begin, leaf.end);
    });
    std::int64_t at = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Stretch stretch = numerics::stretch_of(tree, cuts[i], cuts[i + 1]);
      if (stretch.begin == stretch.end) continue;
      EXPECT_EQ(stretch.resumes, !tree.cuts_between_leaves(cuts[i]));
      EXPECT_EQ(stretch.stays_open, !tree.cuts_between_leaves(cuts[i + 1]));
      std::vector<std::pair<std::int64_t, std::int64_t>> stack;
      numerics::for_each_leaf_part(tree, stretch, [&](const LeafPart& part) {
        EXPECT_EQ(part.begin, at);
        at = part.end;
        if (part.opens) leaves.emplace_back(part.begin, part.begin);
        ASSERT_FALSE(leaves.empty());
        EXPECT_EQ(leaves.back().second, part.begin);
        leaves.back().second = part.end;
        if (!part.closes) {
          EXPECT_EQ(part.merges, 0);
          return;
        }
        stack.push_back(leaves.back());
        for (int merge = 0; merge < part.merges; ++merge) {
          ASSERT_GE(stack.size(), 2u);
          const auto upper = stack.back();
          stack.pop_back();
          EXPECT_TRUE(tree.joins(stack.back().first, stack.back().second, upper.second));
          stack.back().second = upper.second;
        }
      });
      EXPECT_EQ(at, stretch.end);
      // What is left is the cover of the leaves that ended here.
      Spans cover;
      numerics::for_each_cover_node(
          tree, stretch.leaves_begin, stretch.leaves_end,
          [&](const numerics::WalkStep& node) { cover.emplace_back(node.begin, node.end); });
      EXPECT_EQ(stack, cover);
    }
    EXPECT_EQ(leaves, expected);
  }
}

TEST(Stretch, LeavesAreFoundByPositionAndPartsByTheirNode) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const AxisTree tree = random_tree(random);
    Spans leaves;
    numerics::for_each_leaf(tree, 0, tree.length, [&](const numerics::WalkStep& leaf) {
      leaves.emplace_back(leaf.begin, leaf.end);
      for (std::int64_t at = leaf.begin; at < leaf.end; ++at) {
        EXPECT_EQ(tree.leaf_at(at).begin, leaf.begin);
        EXPECT_EQ(tree.leaf_at(at).end, leaf.end);
      }
    });
    // Any three boundaries: the parts of a node, or not.
    Spans nodes;
    const auto list = [&](const auto& self, numerics::TreeNode node) -> void {
      nodes.emplace_back(node.begin, node.end);
      if (tree.is_leaf(node)) return;
      self(self, tree.lower(node));
      self(self, tree.upper(node));
    };
    list(list, tree.root());
    const auto boundary = [&] {
      const auto& leaf =
          leaves[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(leaves.size()) - 1))];
      return uniform(random, 0, 1) == 0 ? leaf.first : leaf.second;
    };
    for (int i = 0; i < 50; ++i) {
      std::int64_t at[] = {boundary(), boundary(), boundary()};
      std::sort(at, at + 3);
      if (at[0] == at[1] || at[1] == at[2]) continue;
      const auto is_node = [&](std::int64_t begin, std::int64_t end) {
        return std::find(nodes.begin(), nodes.end(), std::pair(begin, end)) != nodes.end();
      };
      EXPECT_EQ(tree.joins(at[0], at[1], at[2]),
                is_node(at[0], at[2]) && is_node(at[0], at[1]) && is_node(at[1], at[2]))
          << at[0] << " " << at[1] << " " << at[2];
    }
  }
}

}  // namespace
}  // namespace samebits::test
