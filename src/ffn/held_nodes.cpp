#include "ffn/held_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::ffn {

HeldNodes::HeldNodes(int slots)
    : taken_(static_cast<std::size_t>(slots)), planned_taken_(static_cast<std::size_t>(slots)) {
  const auto most = static_cast<std::size_t>(slots);
  held_.reserve(most);
  planned_.reserve(4 * most);
  inputs_.reserve(4 * most);
  steps_.reserve(most);
}

void HeldNodes::push(const numerics::AxisTree& tree, const Node& node, const Input& input) {
  if (!planned_.empty() && node.begin < planned_.back().node.end) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tokens {} to {} were added before", node.begin, planned_.back().node.end));
  }
  inputs_.push_back(input);
  planned_.push_back({node, {static_cast<int>(inputs_.size()) - 1, 1, node.slot}});
  while (planned_.size() > 1) {
    Planned& lower = planned_[planned_.size() - 2];
    const Planned& upper = planned_.back();
    if (lower.node.end != upper.node.begin || !tree.joins(lower.node.begin, lower.node.end, upper.node.end)) {
      return;
    }
    lower.node.end = upper.node.end;
    lower.step.count += upper.step.count;
    ++inputs_.back().merges;
    planned_.pop_back();
  }
}

void HeldNodes::plan(const numerics::AxisTree& tree, std::span<const Interval> added) {
  planned_.clear();
  inputs_.clear();
  steps_.clear();
  std::size_t next = 0;
  const auto push_added = [&] {
    push(tree, {added[next].begin, added[next].end, -1}, {-1, static_cast<int>(next), 0});
    ++next;
  };
  for (const Node& node : held_) {
    while (next < added.size() && added[next].begin < node.begin) push_added();
    push(tree, node, {node.slot, -1, 0});
  }
  while (next < added.size()) push_added();
  assign_slots();
}

// Steps run one after the other, so a slot that one of them has emptied is free for the next.
void HeldNodes::assign_slots() {
  planned_taken_ = taken_;
  for (Planned& made : planned_) {
    const std::span<const Input> from = inputs(made.step);
    if (from.size() == 1 && from.front().held >= 0) continue;  // stays where it is
    int slot = -1;
    for (const Input& input : from) {
      if (input.held < 0) continue;
      if (slot < 0) {
        slot = input.held;  // in place
      } else {
        planned_taken_[static_cast<std::size_t>(input.held)] = false;
      }
    }
    if (slot < 0) {
      const auto free = std::find(planned_taken_.begin(), planned_taken_.end(), false);
      if (free == planned_taken_.end()) {
        throw Error(ErrorCode::refused,
                    fmt::format("the sum would hold more than its {} nodes: tokens came in more stretches "
                                "than the accumulator was made for",
                                taken_.size()));
      }
      *free = true;
      slot = static_cast<int>(free - planned_taken_.begin());
    }
    made.node.slot = made.step.slot = slot;
    steps_.push_back(made.step);
  }
}

void HeldNodes::commit() {
  held_.clear();
  for (const Planned& made : planned_) held_.push_back(made.node);
  taken_ = planned_taken_;
}

void HeldNodes::clear() {
  held_.clear();
  std::fill(taken_.begin(), taken_.end(), false);
}

bool HeldNodes::is_whole(std::int64_t length) const {
  return planned_.size() == 1 && planned_.front().node.begin == 0 && planned_.front().node.end == length;
}

int most_held(const numerics::AxisTree& tree, std::int64_t tokens) {
  int height = 0, most = 0;
  const std::int64_t end = numerics::stretch_of(tree, 0, tokens).leaves_end;
  numerics::for_each_leaf(tree, 0, end, [&](const numerics::WalkStep& leaf) {
    height += 1 - leaf.merges;
    most = std::max(most, height);
  });
  return most;
}

}  // namespace samebits::ffn
