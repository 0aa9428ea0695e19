// Section 2 of the contract as it is written: a node is a leaf or the sum of its two children.
#include "numerics/leaf.hpp"
#include "reference/reference.hpp"

namespace samebits::reference {

float node_value(const Contract& contract, const AxisTree& tree, numerics::TreeNode node, Vector a,
                 Vector b) {
  if (tree.is_leaf(node)) {
    const auto a_at = [a](std::int64_t k) { return a.data[k * a.stride]; };
    const auto b_at = [b](std::int64_t k) { return b.data[k * b.stride]; };
    return numerics::node(contract.node,
                          numerics::chain(contract.leaf, 0.0f, node.begin, node.end, a_at, b_at));
  }
  const float lower = node_value(contract, tree, tree.lower(node), a, b);
  const float upper = node_value(contract, tree, tree.upper(node), a, b);
  return numerics::node(contract.node, lower + upper);
}

float root(const Contract& contract, const AxisTree& tree, Vector a, Vector b) {
  return node_value(contract, tree, tree.root(), a, b);  // of an empty axis: a leaf without products, +0
}

Trees trees_of(const Contract& contract, const Shape& shape, std::int64_t tokens) {
  return {numerics::axis_tree(contract, contract.hidden, shape.hidden),
          numerics::axis_tree(contract, contract.intermediate, shape.intermediate),
          numerics::axis_tree(contract, contract.tokens, tokens)};
}

}  // namespace samebits::reference
