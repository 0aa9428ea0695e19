#include "engine/cuda/leaves.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::SAMEBITS_GPU {
namespace {

constexpr std::int64_t kLongestLeaf = (std::int64_t{1} << 25) - 1;

}  // namespace

void Leaves::reserve(const numerics::AxisTree& longest) {
  std::int64_t leaves = 0, longest_leaf = 0;
  numerics::for_each_leaf(longest, 0, longest.length, [&](const numerics::WalkStep& leaf) {
    ++leaves;
    longest_leaf = std::max(longest_leaf, leaf.end - leaf.begin);
  });
  // A shorter axis of the same rule has no more leaves, but for the rounding of halves to granules.
  const std::int64_t most = 2 * leaves + 2;
  if (leaves > LongLeafList::kMost) {
    throw Error(
        ErrorCode::refused,
        fmt::format("an axis of {} has {} leaves; the {} engine holds {}: take a rule with longer leaves",
                    longest.length, leaves, kEngineName, LongLeafList::kMost));
  }
  if (longest_leaf > kLongestLeaf) {
    throw Error(ErrorCode::refused, fmt::format("a leaf of {} is longer than the {} engine's {}",
                                                longest_leaf, kEngineName, kLongestLeaf));
  }
  steps_.reserve(std::max(steps_.capacity(), static_cast<std::size_t>(most)));
  stack_.reserve(steps_.capacity());
  const Interval whole{0, longest.length};
  build(longest, {&whole, 1});
}

void Leaves::build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends) {
  steps_.clear();
  nodes_ = 0;
  levels_ = 0;
  resumes_ = stays_open_ = false;
  for (const Interval& interval : held) {
    stack_.clear();
    const numerics::Stretch stretch = numerics::stretch_of(tree, interval.begin, interval.end);
    const bool first = &interval == &held.front(), last = &interval == &held.back();
    if ((stretch.resumes && !(open_ends && first)) || (stretch.stays_open && !(open_ends && last)))
      throw Error(ErrorCode::internal, "a shard of an axis cuts inside a leaf");
    resumes_ = resumes_ || stretch.resumes;
    stays_open_ = stretch.stays_open;
    numerics::for_each_leaf_part(tree, stretch, [&](const numerics::LeafPart& leaf) {
      steps_.push_back({static_cast<std::uint32_t>((leaf.end - leaf.begin) << 7 | leaf.merges)});
      if (!leaf.closes) return;
      stack_.resize(stack_.size() - static_cast<std::size_t>(leaf.merges));
      stack_.push_back(steps_.size() - 1);
    });
    // What is left are the nodes of the cover; nothing merges them later.
    for (const std::size_t leaf : stack_) steps_[leaf].word |= 1u << 6;
    nodes_ += static_cast<int>(stack_.size());
  }
  int height = 0;
  for (std::size_t i = 0; i < steps_.size() - (stays_open_ ? 1 : 0); ++i) {
    levels_ = std::max(levels_, height);
    height += (steps_[i].emits() ? 0 : 1) - steps_[i].merges();
  }
  if (count() > LongLeafList::kMost) throw Error(ErrorCode::internal, "more leaves than the plan reserved");
}

}  // namespace samebits::engine::SAMEBITS_GPU
