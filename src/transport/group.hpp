// What every transport says of its groups: which ranks, and how many bytes each.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace samebits::transport {

std::size_t total(std::span<const std::size_t> bytes);

// Throws Error(invalid_argument) unless there is one count a rank.
void check_counts(std::span<const std::size_t> bytes, int ranks);

// Ranks of the world, ascending, and this rank's place among them.
struct Members {
  std::vector<int> of_world;
  int rank = 0;
};

// The part `ranks` of a group. Throws Error(invalid_argument) when this rank is not in it.
Members subgroup_of(const Members& group, std::span<const int> ranks);

}  // namespace samebits::transport
