// Nodes that arrive in the order of the sequence become the largest nodes of the tree that they fill: a stack
// machine that notes what it merges. Numbers only.
#pragma once

#include <span>
#include <vector>

#include "numerics/tree.hpp"
#include "samebits/layout.hpp"

namespace samebits::ffn {

class NodeJoiner {
 public:
  // A node, and which inputs make it.
  struct Joined {
    Interval node;
    int first = 0, count = 0;
  };

  void reserve(std::size_t nodes);
  void clear();

  // Throws Error(invalid_argument) for tokens that are there already.
  void push(const numerics::AxisTree& tree, const Interval& node);

  std::span<const Joined> joined() const { return joined_; }
  int merges_after(int input) const { return merges_[static_cast<std::size_t>(input)]; }

 private:
  std::vector<Joined> joined_;
  std::vector<int> merges_;  // after each input
};

}  // namespace samebits::ffn
