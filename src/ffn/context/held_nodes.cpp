#include "ffn/context/held_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "samebits/error.hpp"

namespace samebits::ffn {

HeldNodes::HeldNodes(int slots)
    : taken_(static_cast<std::size_t>(slots)), planned_taken_(static_cast<std::size_t>(slots)) {
  const auto most = static_cast<std::size_t>(slots);
  held_.reserve(most);
  planned_.reserve(most);
  joiner_.reserve(4 * most);
  inputs_.reserve(4 * most);
  steps_.reserve(most);
}

void HeldNodes::plan(const numerics::AxisTree& tree, std::span<const Interval> added) {
  joiner_.clear();
  inputs_.clear();
  std::size_t next = 0;
  const auto push_added = [&] {
    joiner_.push(tree, added[next]);
    inputs_.push_back({-1, static_cast<int>(next), 0});
    ++next;
  };
  for (const Node& node : held_) {
    while (next < added.size() && added[next].begin < node.at.begin) push_added();
    joiner_.push(tree, node.at);
    inputs_.push_back({node.slot, -1, 0});
  }
  while (next < added.size()) push_added();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    inputs_[i].merges = joiner_.merges_after(static_cast<int>(i));

  steps_.clear();
  planned_.clear();
  planned_taken_ = taken_;
  for (const NodeJoiner::Joined& made : joiner_.joined()) {
    const Step step{made.first, made.count, slot_for(inputs({made.first, made.count, 0}))};
    planned_.push_back({made.node, step.slot});
    const bool stays = made.count == 1 && inputs_[static_cast<std::size_t>(made.first)].held >= 0;
    if (!stays) steps_.push_back(step);
  }
}

// In place where a part of the node is held. Steps run one after the other, so a slot that one of them has
// emptied is free for the next.
int HeldNodes::slot_for(std::span<const Input> from) {
  int slot = -1;
  for (const Input& input : from) {
    if (input.held < 0) continue;
    if (slot < 0) {
      slot = input.held;
    } else {
      planned_taken_[static_cast<std::size_t>(input.held)] = false;
    }
  }
  if (slot >= 0) return slot;
  const auto free = std::find(planned_taken_.begin(), planned_taken_.end(), false);
  if (free == planned_taken_.end()) {
    throw Error(ErrorCode::refused,
                fmt::format("the sum would hold more than its {} nodes: tokens came in more stretches than "
                            "the accumulator was made for",
                            taken_.size()));
  }
  *free = true;
  return static_cast<int>(free - planned_taken_.begin());
}

void HeldNodes::commit() {
  held_.swap(planned_);
  taken_ = planned_taken_;
}

void HeldNodes::clear() {
  held_.clear();
  std::fill(taken_.begin(), taken_.end(), false);
}

bool HeldNodes::is_whole(std::int64_t length) const {
  return planned_.size() == 1 && planned_.front().at == Interval{0, length};
}

// A sum over [0, p) holds as many nodes as the path to p turns right. Under `block` that is the ones of the
// number of leaves before p; else the upper part of a node is the larger one, and the last path turns right
// at every node.
int most_held(const numerics::AxisTree& tree, std::int64_t tokens) {
  if (tree.rule.rule == Rule::block) {
    const bool ends = tokens == tree.length;  // then the last leaf joins all
    const std::int64_t block = tree.rule.value, whole = tokens / block;
    const std::int64_t leaves = ends ? (tokens + block - 1) / block - 1 : whole;
    int ones = 0;  // of the number below or at `leaves` that has most: all ones
    while ((std::int64_t{2} << ones) - 1 <= leaves) ++ones;
    return std::max(ones, ends && tokens > 0 ? 1 : 0);
  }
  if (tokens < tree.length || tokens == 0) return 0;  // one leaf that has no end yet
  int depth = 0;
  for (numerics::TreeNode node = tree.root(); !tree.is_leaf(node); node = tree.upper(node)) ++depth;
  return std::max(depth, 1);
}

}  // namespace samebits::ffn
