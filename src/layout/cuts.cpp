#include "layout/cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::layout {

std::vector<std::int64_t> even_cuts(std::int64_t length, int tp) {
  std::vector<std::int64_t> cuts;
  for (int rank = 0; rank < tp; ++rank) cuts.push_back(even_slice(length, tp, rank).begin);
  cuts.push_back(length);
  return cuts;
}

std::vector<std::int64_t> leaf_cuts(const numerics::AxisTree& tree, int tp) {
  const std::vector<std::int64_t> even = even_cuts(tree.length, tp);
  const bool divides = tree.length % tp == 0;
  if (divides && std::all_of(even.begin(), even.end(),
                             [&](std::int64_t cut) { return tree.cuts_between_leaves(cut); })) {
    return even;
  }
  std::vector<std::int64_t> ends{0};  // leaf boundaries
  numerics::for_each_leaf(tree, 0, tree.length,
                          [&](const numerics::WalkStep& leaf) { ends.push_back(leaf.end); });
  const auto leaves = static_cast<std::int64_t>(ends.size()) - 1;
  if (leaves < tp) return {};

  std::vector<std::int64_t> cuts{0};
  std::int64_t last = 0;  // index of the boundary taken last
  for (int rank = 1; rank < tp; ++rank) {
    const std::int64_t lowest = last + 1, highest = leaves - (tp - rank);  // every rank keeps a leaf
    std::int64_t best = lowest;
    // Compared without division: distance to rank * length / tp, times tp.
    const auto distance = [&](std::int64_t index) { return std::abs(ends[index] * tp - tree.length * rank); };
    for (std::int64_t index = lowest; index <= highest; ++index) {
      if (distance(index) < distance(best)) best = index;
    }
    cuts.push_back(ends[best]);
    last = best;
  }
  cuts.push_back(tree.length);
  return cuts;
}

std::string legal_degrees(const numerics::AxisTree& tree) {
  const std::int64_t leaves = numerics::count_leaves(tree);
  return leaves <= 1 ? "1" : fmt::format("1 to {}", leaves);
}

void check_shards(const TokenShards& shards) {
  const auto refuse = [&](std::int64_t token) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "token shards do not tile the {} tokens at token {}: every token belongs to one rank, whose "
            "intervals ascend and do not touch",
            shards.tokens, token));
  };
  std::int64_t held = 0;
  for (const auto& intervals : shards.of_rank) {
    std::int64_t free_from = 0;
    for (const Interval& interval : intervals) {
      if (interval.length() <= 0 || interval.begin < free_from || interval.end > shards.tokens)
        refuse(interval.begin);
      free_from = interval.end + 1;  // neighbours are one interval
      held += interval.length();
    }
  }
  // Every interval must begin where another ends; with the lengths right, that leaves no gap and no overlap.
  std::int64_t next = 0;
  while (next < shards.tokens) {
    const Interval* found = nullptr;
    for (const auto& intervals : shards.of_rank) {
      const auto at = std::lower_bound(
          intervals.begin(), intervals.end(), next,
          [](const Interval& interval, std::int64_t token) { return interval.begin < token; });
      if (at != intervals.end() && at->begin == next) found = &*at;
    }
    if (found == nullptr) refuse(next);
    next = found->end;
  }
  if (held != shards.tokens || next != shards.tokens) refuse(next);
}

bool cuts_between_leaves(const numerics::AxisTree& tree, std::span<const std::vector<Interval>> of_rank) {
  for (const auto& intervals : of_rank) {
    for (const Interval& interval : intervals) {
      if (interval.length() == 0) continue;
      if (!tree.cuts_between_leaves(interval.begin) || !tree.cuts_between_leaves(interval.end)) return false;
    }
  }
  return true;
}

}  // namespace samebits::layout
