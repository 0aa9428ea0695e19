// A row whose ranks are processes: whose time counts.
#pragma once

#include <vector>

#include "world/world.hpp"

namespace samebits::tools {

// Run by run the longest time that any rank took. A rank without part has none.
std::vector<double> slowest(const std::vector<std::vector<double>>& of_ranks);

// Collective: `slowest` of what every rank of the world has measured, on every rank.
std::vector<double> slowest_of_world(const World& world, const std::vector<double>& mine);

// Run by run what `all` took beyond `without`: of runs of both in turn. Where there is nothing between them
// but noise, it may be below 0.
std::vector<double> difference(const std::vector<double>& all, const std::vector<double>& without);

}  // namespace samebits::tools
