// The bookkeeping of a sum that grows: which nodes of the token tree are held, in which slot of memory, and
// what becomes of them when more arrive. Numbers only.
#pragma once

#include <span>
#include <vector>

#include "ffn/context/node_joiner.hpp"

namespace samebits::ffn {

class HeldNodes {
 public:
  explicit HeldNodes(int slots);

  // Makes a node in `slot` from inputs [first, first + count), as a stack machine does.
  struct Step {
    int first = 0, count = 0;
    int slot = 0;
  };
  struct Input {
    int held = -1;   // slot of a node that is held, or
    int added = -1;  // index of a node that arrives
    int merges = 0;
  };

  // What to do when nodes `added` (ascending) of `tree` arrive; what is held changes with commit(). Throws
  // Error(refused) when more nodes would be held than there are slots, Error(invalid_argument) for tokens
  // that are there already.
  void plan(const numerics::AxisTree& tree, std::span<const Interval> added);
  std::span<const Step> steps() const { return steps_; }
  std::span<const Input> inputs(const Step& step) const {
    return std::span(inputs_).subspan(static_cast<std::size_t>(step.first),
                                      static_cast<std::size_t>(step.count));
  }
  void commit();
  void clear();

  // After plan(): whether all that is held then is one node, [0, length).
  bool is_whole(std::int64_t length) const;
  // Its inputs.
  std::span<const Input> root_inputs() const { return inputs_; }

 private:
  struct Node {
    Interval at;
    int slot = -1;
  };
  int slot_for(std::span<const Input> from);

  std::vector<Node> held_;  // ascending, no two of them the parts of one node
  std::vector<bool> taken_;
  NodeJoiner joiner_;
  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  std::vector<Node> planned_;
  std::vector<bool> planned_taken_;
};

// The most nodes that a sum holds while it grows from 0 to `tokens`, which is the tree's length, or a tree of
// one leaf or of blocks has no end.
int most_held(const numerics::AxisTree& tree, std::int64_t tokens);

}  // namespace samebits::ffn
