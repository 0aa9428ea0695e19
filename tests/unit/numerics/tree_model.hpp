// The trees of an axis built again, from the words of the contract and in other ways than src/numerics: as
// linked nodes, `halve` level by level, `block` like a binary counter. Written out as text, a tree is
// compared whole.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "numerics/tree.hpp"

namespace samebits::test {

struct ModelNode {
  std::int64_t begin = 0, end = 0;
  std::shared_ptr<ModelNode> lower, upper;  // both or none
};
using ModelTree = std::shared_ptr<ModelNode>;

inline ModelTree model_leaf(std::int64_t begin, std::int64_t end) {
  return std::make_shared<ModelNode>(ModelNode{begin, end, nullptr, nullptr});
}
inline ModelTree model_sum(const ModelTree& lower, const ModelTree& upper) {
  return std::make_shared<ModelNode>(ModelNode{lower->begin, upper->end, lower, upper});
}

// b + max(g, floor((e-b)/2/g)*g)
inline std::int64_t model_split(std::int64_t b, std::int64_t e, std::int64_t g) {
  const double parts = std::floor(static_cast<double>(e - b) / 2.0 / static_cast<double>(g));
  return b + std::max(g, static_cast<std::int64_t>(parts) * g);
}

inline ModelTree model_max(std::int64_t b, std::int64_t e, std::int64_t g, std::int64_t longest) {
  if (e - b <= longest) return model_leaf(b, e);
  const std::int64_t middle = model_split(b, e, g);
  return model_sum(model_max(b, middle, g, longest), model_max(middle, e, g, longest));
}

inline ModelTree model_halve(std::int64_t length, std::int64_t g, std::int64_t times) {
  const ModelTree root = model_leaf(0, length);
  std::vector<ModelTree> level = {root};
  for (std::int64_t time = 0; time < times && !level.empty(); ++time) {
    std::vector<ModelTree> next;
    for (const ModelTree& node : level) {
      if (node->end - node->begin < 2 * g) continue;
      const std::int64_t middle = model_split(node->begin, node->end, g);
      node->lower = model_leaf(node->begin, middle);
      node->upper = model_leaf(middle, node->end);
      next.push_back(node->lower);
      next.push_back(node->upper);
    }
    level = next;
  }
  return root;
}

// Leaves arrive one by one; two sums of equally many leaves become one, and at the end what is open folds
// from the right.
inline ModelTree model_block(std::int64_t length, std::int64_t block) {
  struct Open {
    ModelTree tree;
    std::int64_t leaves;
  };
  std::vector<Open> stack;
  const auto merge = [&stack] {
    const Open upper = stack.back();
    stack.pop_back();
    stack.back() = {model_sum(stack.back().tree, upper.tree), stack.back().leaves + upper.leaves};
  };
  for (std::int64_t begin = 0; begin < length || begin == 0; begin += block) {
    stack.push_back({model_leaf(begin, std::min(begin + block, length)), 1});
    while (stack.size() > 1 && stack[stack.size() - 2].leaves == stack.back().leaves) merge();
  }
  while (stack.size() > 1) merge();
  return stack.back().tree;
}

inline ModelTree model_tree(const AxisRule& rule, std::int64_t granule, std::int64_t length) {
  switch (rule.rule) {
    case Rule::max:
      return model_max(0, length, granule, rule.value);
    case Rule::halve:
      return model_halve(length, granule, rule.value);
    case Rule::block:
      return model_block(length, rule.value);
  }
  return nullptr;
}

// The tree that src/numerics describes.
inline ModelTree read_tree(const numerics::AxisTree& tree, const numerics::TreeNode& node) {
  if (tree.is_leaf(node)) return model_leaf(node.begin, node.end);
  return model_sum(read_tree(tree, tree.lower(node)), read_tree(tree, tree.upper(node)));
}
inline ModelTree read_tree(const numerics::AxisTree& tree) { return read_tree(tree, tree.root()); }

// "0-32" is a leaf, "(0-32+32-64)" a sum.
inline std::string text_of(std::int64_t begin, std::int64_t end) { return fmt::format("{}-{}", begin, end); }
inline std::string text_of_sum(const std::string& lower, const std::string& upper) {
  return fmt::format("({}+{})", lower, upper);
}
inline std::string text_of(const ModelTree& tree) {
  if (tree->lower == nullptr) return text_of(tree->begin, tree->end);
  return text_of_sum(text_of(tree->lower), text_of(tree->upper));
}

template <class Visit>
void for_each_model_node(const ModelTree& tree, const Visit& visit) {
  visit(tree);
  if (tree->lower == nullptr) return;
  for_each_model_node(tree->lower, visit);
  for_each_model_node(tree->upper, visit);
}

inline std::vector<std::int64_t> leaf_boundaries(const ModelTree& tree) {
  std::vector<std::int64_t> boundaries = {0};
  for_each_model_node(tree, [&](const ModelTree& node) {
    if (node->lower == nullptr) boundaries.push_back(node->end);
  });
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  return boundaries;
}

inline std::string name_of(const numerics::AxisTree& tree) {
  const char* const rules[] = {"max", "halve", "block"};
  return fmt::format("{}:{} granule {} length {}{}", rules[static_cast<int>(tree.rule.rule)], tree.rule.value,
                     tree.granule, tree.length, tree.moved ? " moved" : "");
}

// Every rule at both granules with small numbers, for lengths where all shapes of tree occur.
inline std::vector<numerics::AxisTree> small_trees(bool moved) {
  std::vector<numerics::AxisTree> trees;
  const auto add = [&](Rule rule, std::int64_t value, std::int64_t granule, std::int64_t length) {
    trees.push_back({{rule, value}, granule, length, moved});
  };
  for (std::int64_t length = 0; length <= 40; ++length) {
    for (const std::int64_t value : {1, 2, 3, 5, 8}) {
      add(Rule::max, value, 1, length);
      add(Rule::block, value, 1, length);
      add(Rule::halve, value - 1, 1, length);
    }
  }
  for (std::int64_t length = 0; length <= 300; length += 7) {
    for (const std::int64_t value : {16, 17, 40, 64}) add(Rule::max, value, 16, length);
    for (const std::int64_t value : {16, 48, 64}) add(Rule::block, value, 16, length);
    for (const std::int64_t value : {0, 1, 3, 40}) add(Rule::halve, value, 16, length);
  }
  return trees;
}

}  // namespace samebits::test
