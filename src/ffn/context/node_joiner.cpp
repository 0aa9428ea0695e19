#include "ffn/context/node_joiner.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::ffn {

void NodeJoiner::reserve(std::size_t nodes) {
  joined_.reserve(nodes);
  merges_.reserve(nodes);
}

void NodeJoiner::clear() {
  joined_.clear();
  merges_.clear();
}

void NodeJoiner::push(const numerics::AxisTree& tree, const Interval& node) {
  if (!joined_.empty() && node.begin < joined_.back().node.end) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tokens {} to {} were added before", node.begin, joined_.back().node.end));
  }
  joined_.push_back({node, static_cast<int>(merges_.size()), 1});
  merges_.push_back(0);
  while (joined_.size() > 1) {
    Joined& lower = joined_[joined_.size() - 2];
    const Joined& upper = joined_.back();
    if (lower.node.end != upper.node.begin || !tree.joins(lower.node.begin, lower.node.end, upper.node.end)) {
      return;
    }
    lower.node.end = upper.node.end;
    lower.count += upper.count;
    ++merges_.back();
    joined_.pop_back();
  }
}

}  // namespace samebits::ffn
