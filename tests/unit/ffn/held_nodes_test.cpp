// Nodes that arrive in any order, a few at a time, become the tree's.
#include "ffn/context/held_nodes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "numerics/walk.hpp"
#include "samebits/contract.hpp"
#include "samebits/error.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using ffn::HeldNodes;
using numerics::AxisTree;
using numerics::TreeNode;

// A node as a text: which leaves, in which order.
std::string text_of(const AxisTree& tree, TreeNode node) {
  if (tree.is_leaf(node)) return std::to_string(node.begin);
  return fmt::format("({} {})", text_of(tree, tree.lower(node)), text_of(tree, tree.upper(node)));
}
std::string text_at(const AxisTree& tree, const Interval& at) {
  TreeNode node = tree.root();
  while (node.begin != at.begin || node.end != at.end) {
    const std::int64_t cut = tree.split(node);
    node = at.begin < cut ? tree.lower(node) : tree.upper(node);
  }
  return text_of(tree, node);
}

std::string run(const HeldNodes& nodes, std::span<const HeldNodes::Input> inputs,
                const std::vector<std::string>& slots, const std::vector<std::string>& added) {
  std::vector<std::string> stack;
  for (const HeldNodes::Input& input : inputs) {
    stack.push_back(input.held >= 0 ? slots[static_cast<std::size_t>(input.held)]
                                    : added[static_cast<std::size_t>(input.added)]);
    for (int m = 0; m < input.merges; ++m) {
      const std::string upper = stack.back();
      stack.pop_back();
      stack.back() = fmt::format("({} {})", stack.back(), upper);
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  static_cast<void>(nodes);
  return stack.empty() ? "" : stack.back();
}

AxisTree tree_of(const char* rule, std::int64_t tokens) {
  const Contract contract = parse_contract(fmt::format("f32-tree-v1,T={}", rule));
  return numerics::axis_tree(contract, contract.tokens, tokens);
}

TEST(HeldNodes, AnyOrderOfCallsMakesTheTree) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const char* const rules[] = {"max:3", "halve:3", "block:4", "block:1"};
    const std::int64_t tokens = uniform(random, 1, 90);
    const AxisTree tree = tree_of(rules[uniform(random, 0, 3)], tokens);
    std::vector<std::int64_t> ends;
    numerics::for_each_leaf(tree, 0, tokens,
                            [&](const numerics::WalkStep& leaf) { ends.push_back(leaf.end); });
    // Pieces between leaves, in any order: the covers of each arrive together.
    std::vector<Interval> pieces;
    std::int64_t from = 0;
    for (const std::int64_t end : ends) {
      if (end != tokens && uniform(random, 0, 2) != 0) continue;
      pieces.push_back({from, end});
      from = end;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    HeldNodes nodes(200);
    std::vector<std::string> slots(200);
    for (const Interval& piece : pieces) {
      std::vector<Interval> added;
      std::vector<std::string> texts;
      numerics::for_each_cover_node(tree, piece.begin, piece.end, [&](const numerics::WalkStep& node) {
        added.push_back({node.begin, node.end});
        texts.push_back(text_at(tree, added.back()));
      });
      nodes.plan(tree, added);
      for (const HeldNodes::Step& step : nodes.steps())
        slots[static_cast<std::size_t>(step.slot)] = run(nodes, nodes.inputs(step), slots, texts);
      nodes.commit();
    }
    nodes.plan(tree, {});
    ASSERT_TRUE(nodes.is_whole(tokens)) << round;
    EXPECT_EQ(run(nodes, nodes.root_inputs(), slots, {}), text_of(tree, tree.root())) << round;
  }
}

// Growing from the left, a sum never needs more slots than are said to be enough.
TEST(HeldNodes, MostHeldIsEnoughAndNeeded) {
  for (const char* rule : {"block:4", "max:3", "halve:4"}) {
    for (std::int64_t tokens = 1; tokens < 70; ++tokens) {
      const AxisTree tree = tree_of(rule, tokens);
      const int most = ffn::most_held(tree, tokens);
      int used = 0;
      HeldNodes nodes(most);
      numerics::for_each_leaf(tree, 0, tokens, [&](const numerics::WalkStep& leaf) {
        const Interval added{leaf.begin, leaf.end};
        nodes.plan(tree, {&added, 1});
        for (const HeldNodes::Step& step : nodes.steps()) used = std::max(used, step.slot + 1);
        nodes.commit();
      });
      EXPECT_EQ(used, most) << rule << " " << tokens;
    }
  }
}

TEST(HeldNodes, RefusalsChangeNothing) {
  const AxisTree tree = tree_of("block:4", 64);
  HeldNodes nodes(1);
  const Interval first{0, 4}, far{16, 20}, second{4, 8};
  nodes.plan(tree, {&first, 1});
  nodes.commit();
  EXPECT_THROW(nodes.plan(tree, {&first, 1}), Error);  // there already
  EXPECT_THROW(nodes.plan(tree, {&far, 1}), Error);    // a second slot is needed
  nodes.plan(tree, {&second, 1});
  nodes.commit();
  nodes.plan(tree_of("block:4", 8), {});
  EXPECT_TRUE(nodes.is_whole(8));
}

}  // namespace
}  // namespace samebits::test
