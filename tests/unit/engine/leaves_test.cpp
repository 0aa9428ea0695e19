// The list of leaves that kernels run, played by a stack machine, against the nodes of the tree.
#include "engine/cuda/leaves.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "numerics/walk.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using engine::cuda::LeafStep;
using engine::cuda::Leaves;
using numerics::AxisTree;
using Nodes = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::vector<std::int64_t> boundaries(const AxisTree& tree) {
  std::vector<std::int64_t> cuts = {0};
  numerics::for_each_leaf(tree, 0, tree.length,
                          [&](const numerics::WalkStep& leaf) { cuts.push_back(leaf.end); });
  return cuts;
}

// Whether [begin, end) is a node of the tree.
bool is_node(const AxisTree& tree, std::int64_t begin, std::int64_t end) {
  numerics::TreeNode node = tree.root();
  while (node.begin != begin || node.end != end) {
    if (tree.is_leaf(node)) return false;
    node = end <= tree.split(node) ? tree.lower(node) : tree.upper(node);
    if (begin < node.begin || end > node.end) return false;
  }
  return true;
}

void expect_right(const AxisTree& tree, const std::vector<Interval>& held, const Leaves& leaves) {
  Nodes expected;
  for (const Interval& interval : held) {
    numerics::for_each_cover_node(tree, interval.begin, interval.end, [&](const numerics::WalkStep& node) {
      expected.emplace_back(node.begin, node.end);
    });
  }
  Nodes stack, finished;
  std::size_t interval = 0, most = 0;
  std::int64_t at = held.empty() ? 0 : held[0].begin;
  for (const LeafStep step : leaves.steps()) {
    while (at == held[interval].end) at = held[++interval].begin;
    most = std::max(most, stack.size());
    stack.emplace_back(at, at + step.length());
    at += step.length();
    for (int merge = 0; merge < step.merges(); ++merge) {
      ASSERT_GE(stack.size(), 2u);
      const auto upper = stack.back();
      stack.pop_back();
      ASSERT_EQ(stack.back().second, upper.first);
      stack.back().second = upper.second;
      ASSERT_TRUE(is_node(tree, stack.back().first, upper.second))
          << fmt::format("[{}, {}) is no node", stack.back().first, upper.second);
    }
    if (step.emits()) {
      finished.push_back(stack.back());
      stack.pop_back();
    }
  }
  EXPECT_TRUE(stack.empty());
  EXPECT_EQ(finished, expected);
  EXPECT_EQ(leaves.nodes(), static_cast<int>(expected.size()));
  EXPECT_EQ(leaves.levels(), static_cast<int>(most));
}

TEST(Leaves, AreTheTreesNodesOnAnyShard) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t granule = uniform(random, 0, 1) == 0 ? 1 : 16;
    const auto rule = static_cast<Rule>(uniform(random, 0, 2));
    const std::int64_t value = rule == Rule::halve ? uniform(random, 0, 5) : granule * uniform(random, 1, 9);
    const AxisTree tree{{rule, value}, granule, uniform(random, 1, 1500), uniform(random, 0, 5) == 0};
    SCOPED_TRACE(fmt::format("rule {} {}, granule {}, length {}, moved {}", static_cast<int>(rule), value,
                             granule, tree.length, tree.moved));
    // Two shards of an axis, as a rank of a zigzag split holds them.
    const std::vector<std::int64_t> cuts = boundaries(tree);
    std::vector<std::int64_t> chosen;
    for (int i = 0; i < 4; ++i) {
      chosen.push_back(
          cuts[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(cuts.size()) - 1))]);
    }
    std::sort(chosen.begin(), chosen.end());
    std::vector<Interval> held;
    if (chosen[0] < chosen[1]) held.push_back({chosen[0], chosen[1]});
    if (chosen[2] < chosen[3]) held.push_back({chosen[2], chosen[3]});
    Leaves leaves;
    leaves.reserve(tree);
    expect_right(tree, {{0, tree.length}}, leaves);
    leaves.build(tree, held);
    expect_right(tree, held, leaves);
  }
}

// A sequence that is cut anywhere: the leaves of its stretches, open ones joined, are those of the whole.
TEST(Leaves, GoOnFromOneCallToTheNext) {
  Random random(8);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t granule = uniform(random, 0, 1) == 0 ? 1 : 16;
    const AxisTree tree{
        {Rule::block, granule * uniform(random, 1, 9)}, granule, uniform(random, 1, 1500), false};
    std::vector<std::int64_t> cuts = {0, tree.length};
    for (int i = 0; i < 4; ++i) cuts.push_back(uniform(random, 0, tree.length));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::int64_t> lengths, expected;
    numerics::for_each_leaf(tree, 0, tree.length, [&](const numerics::WalkStep& leaf) {
      expected.push_back(leaf.end - leaf.begin);
    });
    Leaves leaves;
    leaves.reserve(tree);
    bool open = false;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Interval stretch{cuts[i], cuts[i + 1]};
      if (stretch.length() == 0) continue;
      leaves.build(tree, {&stretch, 1}, true);
      EXPECT_EQ(leaves.resumes(), open);
      int emitted = 0;
      for (int step = 0; step < leaves.count(); ++step) {
        const LeafStep leaf = leaves.steps()[static_cast<std::size_t>(step)];
        if (step == 0 && open) {
          lengths.back() += leaf.length();
        } else {
          lengths.push_back(leaf.length());
        }
        emitted += leaf.emits() ? 1 : 0;
      }
      open = leaves.stays_open();
      EXPECT_EQ(open, !tree.cuts_between_leaves(stretch.end));
      EXPECT_EQ(emitted, leaves.nodes());
      const numerics::Stretch closed = numerics::stretch_of(tree, stretch.begin, stretch.end);
      EXPECT_EQ(leaves.nodes(), numerics::count_cover_nodes(tree, closed.leaves_begin, closed.leaves_end));
    }
    EXPECT_EQ(lengths, expected);
  }
}

}  // namespace
}  // namespace samebits::test
