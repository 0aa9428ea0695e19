// How axes are cut between ranks: the intermediate and the hidden axis over tensor ranks, tokens over context
// ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "numerics/tree.hpp"
#include "samebits/layout.hpp"

namespace samebits::layout {

// tp + 1 boundaries of the axis that all stand between leaves: equal cuts where they exist, else the nearest
// leaf boundaries. Empty when the axis has fewer leaves than ranks.
std::vector<std::int64_t> leaf_cuts(const numerics::AxisTree& tree, int tp);

// tp + 1 boundaries, as even as whole elements allow.
std::vector<std::int64_t> even_cuts(std::int64_t length, int tp);

// "1 to 8": the degrees for which leaf_cuts finds boundaries.
std::string legal_degrees(const numerics::AxisTree& tree);

// Throws Error(invalid_argument) unless the shards tile their tokens, each rank's intervals apart and
// ascending.
void check_shards(const TokenShards& shards);

// Whether every interval of every rank begins and ends between leaves of the token axis.
bool cuts_between_leaves(const numerics::AxisTree& tree, std::span<const std::vector<Interval>> of_rank);

}  // namespace samebits::layout
