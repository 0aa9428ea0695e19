// An axis tree in numbers: how many leaves, how long, how deep, and where it may be cut. Never walks the
// leaves, so the length of an axis does not matter.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "numerics/tree.hpp"

namespace samebits::tools {

struct TreeSummary {
  std::int64_t leaves = 0;
  std::map<std::int64_t, std::int64_t> leaves_of_length;  // length -> how many
  int depth = 0;                                          // of the deepest leaf
};

TreeSummary summarise(const numerics::AxisTree& tree);

// The degrees up to `most` that divide the axis into equal parts, all cut between leaves.
std::vector<std::int64_t> equal_cut_degrees(const numerics::AxisTree& tree, std::int64_t most);

}  // namespace samebits::tools
