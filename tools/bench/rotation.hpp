// How many sets of operands consecutive calls go through, so that none finds its own in the cache, and how
// many calls a graph has.
#pragma once

#include <algorithm>
#include <cstdint>

namespace samebits::tools {

struct Rotation {
  std::int64_t sets = 2;
  int calls = 2;             // of a graph: whole turns through the sets
  bool beyond_cache = true;  // between two uses of a set the others read more than twice the cache
};

// `weight_bytes`: what a call reads of one set's weights. `fewest_calls`: of a graph.
inline Rotation rotation_for(std::int64_t weight_bytes, std::int64_t cache_bytes, int fewest_calls) {
  constexpr std::int64_t kMostSets = 16;
  const std::int64_t bytes = std::max<std::int64_t>(weight_bytes, 1);
  const std::int64_t sets = std::clamp<std::int64_t>(3 * cache_bytes / bytes + 2, 2, kMostSets);
  return {sets, static_cast<int>((fewest_calls + sets - 1) / sets * sets),
          (sets - 1) * bytes > 2 * cache_bytes};
}

}  // namespace samebits::tools
