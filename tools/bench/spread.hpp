// Times of repeated runs, and what is reported of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace samebits::tools {

struct Spread {
  double median = 0, p95 = 0, min = 0, max = 0;
};

// p95 is the smallest sample that at least 95% of the samples do not exceed.
inline Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t count = samples.size(), middle = count / 2;
  const double median = count % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(count)));
  return {median, samples[rank - 1], samples.front(), samples.back()};
}

}  // namespace samebits::tools
