#include "bench/layout_ranks.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace samebits::tools {

std::vector<double> slowest(const std::vector<std::vector<double>>& of_ranks) {
  std::vector<double> times;
  for (const std::vector<double>& rank : of_ranks) {
    times.resize(std::max(times.size(), rank.size()));
    for (std::size_t i = 0; i < rank.size(); ++i) times[i] = std::max(times[i], rank[i]);
  }
  return times;
}

std::vector<double> slowest_of_world(const World& world, const std::vector<double>& mine) {
  const auto* const bytes = reinterpret_cast<const char*>(mine.data());
  std::vector<std::vector<double>> of_ranks;
  for (const std::string& text : world.gather({bytes, mine.size() * sizeof(double)})) {
    of_ranks.emplace_back(text.size() / sizeof(double));
    // A rank without a part sends nothing, and memcpy takes no null pointer, not even for nothing.
    if (!text.empty()) std::memcpy(of_ranks.back().data(), text.data(), text.size());
  }
  return slowest(of_ranks);
}

std::vector<double> difference(const std::vector<double>& all, const std::vector<double>& without) {
  std::vector<double> times;
  for (std::size_t i = 0; i < std::min(all.size(), without.size()); ++i) times.push_back(all[i] - without[i]);
  return times;
}

}  // namespace samebits::tools
