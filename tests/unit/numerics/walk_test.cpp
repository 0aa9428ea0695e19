// The walks rebuild the very tree they walk: a stack machine of texts does what the walks say.
#include "numerics/walk.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "unit/numerics/tree_model.hpp"

namespace samebits::test {
namespace {

using numerics::AxisTree;
using numerics::WalkStep;

using Span = std::pair<std::int64_t, std::int64_t>;
using Texts = std::map<Span, std::string>;  // of every node of a tree

Texts node_texts(const AxisTree& tree) {
  Texts texts;
  for_each_model_node(read_tree(tree), [&](const ModelTree& node) {
    texts[{node->begin, node->end}] = text_of(node);
  });
  return texts;
}

// Pushes what a step says, then merges.
struct StackMachine {
  std::vector<std::string> stack;
  void run(const WalkStep& step, const std::string& text) {
    stack.push_back(text);
    for (int merge = 0; merge < step.merges; ++merge) {
      ASSERT_GE(stack.size(), 2u);
      const std::string upper = stack.back();
      stack.pop_back();
      stack.back() = text_of_sum(stack.back(), upper);
    }
  }
};

// The fewest nodes that tile [begin, end): a shortest path over positions, whose edges are the tree's nodes.
// -1: none.
std::int64_t fewest_nodes(const Texts& nodes, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 2;
  std::vector<std::int64_t> steps(static_cast<std::size_t>(end - begin) + 1, kFar);
  steps[0] = 0;
  for (std::int64_t at = begin; at < end; ++at) {  // edges go up only
    if (steps[at - begin] == kFar) continue;
    for (const auto& [span, text] : nodes) {
      if (span.first != at || span.second <= at || span.second > end) continue;
      std::int64_t& there = steps[span.second - begin];
      there = std::min(there, steps[at - begin] + 1);
    }
  }
  return steps.back() == kFar ? -1 : steps.back();
}

// Catches swapped halves of the walk, merges counted one too few or too many, and steps out of order.
TEST(Walk, LeavesRebuildTheWholeTree) {
  for (const bool moved : {false, true}) {
    for (const AxisTree& tree : small_trees(moved)) {
      StackMachine machine;
      std::int64_t leaves = 0;
      ASSERT_TRUE(numerics::for_each_leaf(tree, 0, tree.length, [&](const WalkStep& step) {
        machine.run(step, text_of(step.begin, step.end));
        ++leaves;
      }));
      EXPECT_EQ(numerics::count_leaves(tree), leaves);
      if (tree.length == 0) {
        ASSERT_TRUE(machine.stack.empty());
        continue;
      }
      ASSERT_EQ(machine.stack.size(), 1u) << name_of(tree);
      ASSERT_EQ(machine.stack[0], text_of(read_tree(tree))) << name_of(tree);
    }
  }
}

// For every interval of every small tree: the cover is the fewest nodes, they are nodes, they tile; an
// interval that cuts inside a leaf has none; and the leaves of the interval merge into just these nodes.
TEST(Walk, CoversAreTheFewestNodes) {
  for (const bool moved : {false, true}) {
    for (const AxisTree& tree : small_trees(moved)) {
      const std::int64_t step_by = tree.granule == 1 ? 1 : 4;
      if (tree.granule == 1 && tree.length % 3 != 1 && tree.length > 12)
        continue;  // every third of the longer ones
      const Texts nodes = node_texts(tree);
      for (std::int64_t begin = 0; begin <= tree.length; begin += step_by) {
        for (std::int64_t end = begin; end <= tree.length;
             end = end == tree.length ? end + 1 : std::min(end + step_by, tree.length)) {
          const std::string where = name_of(tree) + " over " + text_of(begin, end);
          const std::int64_t fewest = fewest_nodes(nodes, begin, end);
          ASSERT_EQ(numerics::count_cover_nodes(tree, begin, end), fewest) << where;
          const bool cuts = tree.cuts_between_leaves(begin) && tree.cuts_between_leaves(end);
          ASSERT_EQ(fewest >= 0, cuts || begin == end) << where;
          if (fewest < 0) continue;

          std::vector<std::string> cover;
          std::int64_t next = begin;
          numerics::for_each_cover_node(tree, begin, end, [&](const WalkStep& node) {
            ASSERT_EQ(node.begin, next) << where;
            ASSERT_EQ(node.merges, 0) << where;
            ASSERT_TRUE(nodes.contains({node.begin, node.end})) << where;
            cover.push_back(nodes.at({node.begin, node.end}));
            next = node.end;
          });
          ASSERT_EQ(next, end) << where;

          StackMachine machine;
          ASSERT_TRUE(numerics::for_each_leaf(tree, begin, end, [&](const WalkStep& leaf) {
            machine.run(leaf, text_of(leaf.begin, leaf.end));
          })) << where;
          ASSERT_EQ(machine.stack, cover) << where;
        }
      }
    }
  }
}

// Shards of random cuts: their covers, one behind the other, finish to the tree.
TEST(Walk, CoversFinishToTheWholeTree) {
  std::mt19937_64 random(3);
  for (const bool moved : {false, true}) {
    for (const AxisTree& tree : small_trees(moved)) {
      const Texts nodes = node_texts(tree);
      const std::vector<std::int64_t> boundaries = leaf_boundaries(read_tree(tree));
      for (int trial = 0; trial < 4; ++trial) {
        std::vector<std::int64_t> ends;
        std::int64_t begin = 0;
        for (const std::int64_t cut : boundaries) {
          if (cut != tree.length && random() % 3 != 0) continue;
          numerics::for_each_cover_node(tree, begin, cut,
                                        [&](const WalkStep& node) { ends.push_back(node.end); });
          begin = cut;
        }
        const auto boundary = [&](std::int64_t i) { return ends[i]; };
        const auto count = static_cast<std::int64_t>(ends.size());
        StackMachine machine;
        ASSERT_TRUE(numerics::for_each_finish_step(tree, count, boundary, [&](const WalkStep& step) {
          ASSERT_TRUE(nodes.contains({step.begin, step.end})) << name_of(tree);
          machine.run(step, nodes.at({step.begin, step.end}));
        })) << name_of(tree);
        if (tree.length == 0) continue;
        ASSERT_EQ(machine.stack.size(), 1u) << name_of(tree);
        ASSERT_EQ(machine.stack[0], text_of(read_tree(tree))) << name_of(tree);
      }
    }
  }
}

// Covers that are not nodes of the tree, do not reach its end, or go past it are refused.
TEST(Walk, WrongCoversDoNotFinish) {
  const AxisTree tree{{Rule::max, 32}, 1, 256, false};
  const auto finishes = [&](std::vector<std::int64_t> ends) {
    return numerics::for_each_finish_step(
        tree, static_cast<std::int64_t>(ends.size()), [&](std::int64_t i) { return ends[i]; },
        [](const WalkStep&) {});
  };
  EXPECT_TRUE(finishes({256}));
  EXPECT_TRUE(finishes({128, 256}));
  EXPECT_TRUE(finishes({64, 128, 192, 224, 256}));
  EXPECT_FALSE(finishes({}));
  EXPECT_FALSE(finishes({128})) << "does not reach the end";
  EXPECT_FALSE(finishes({192, 256})) << "0-192 is not a node";
  EXPECT_FALSE(finishes({128, 200, 256})) << "inside a leaf";
  EXPECT_FALSE(finishes({128, 256, 256})) << "one too many";
  EXPECT_FALSE(finishes({16, 32, 64, 128, 256})) << "halves of a leaf";
}

TEST(Walk, ShardsInsideALeafAreRefused) {
  const AxisTree tree{{Rule::halve, 0}, 16, 256, false};
  EXPECT_EQ(numerics::count_cover_nodes(tree, 0, 128), -1);
  EXPECT_EQ(numerics::count_cover_nodes(tree, 128, 256), -1);
  EXPECT_EQ(numerics::count_cover_nodes(tree, 0, 256), 1);
  EXPECT_EQ(numerics::count_cover_nodes(tree, 0, 0), 0);
  EXPECT_EQ(numerics::count_cover_nodes(tree, 77, 77), 0) << "an empty shard needs nothing";
  EXPECT_FALSE(numerics::for_each_leaf(tree, 16, 256, [](const WalkStep&) {}));
}

}  // namespace
}  // namespace samebits::test
