#include "transport/group.hpp"

#include <fmt/format.h>

#include <numeric>

#include "samebits/error.hpp"

namespace samebits::transport {

std::size_t total(std::span<const std::size_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

void check_counts(std::span<const std::size_t> bytes, int ranks) {
  if (bytes.size() == static_cast<std::size_t>(ranks)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a collective of {} ranks was given {} byte counts", ranks, bytes.size()));
}

Members subgroup_of(const Members& group, std::span<const int> ranks) {
  Members part{{}, -1};
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(group.of_world.size())) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("rank {} of a group of {}: ranks count from 0", rank, group.of_world.size()));
    }
    if (rank == group.rank) part.rank = static_cast<int>(part.of_world.size());
    part.of_world.push_back(group.of_world[static_cast<std::size_t>(rank)]);
  }
  if (part.rank < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} is not in the group it asks for", group.rank));
  }
  return part;
}

}  // namespace samebits::transport
