// Which tokens a rank has rows of.
#pragma once

#include <cstdint>
#include <vector>

#include "samebits/plan.hpp"

namespace samebits::test {

// The tokens whose rows a rank's x, y, dy and dx hold: its context rank's in global order, or its slice of
// them under sequence parallelism.
inline std::vector<std::int64_t> rows_of(const Layout& layout, const RankShard& shard,
                                         const TokenShards& shards) {
  std::vector<std::int64_t> rows;
  for (const Interval& interval : shards.of_rank[static_cast<std::size_t>(shard.cp_rank)]) {
    for (std::int64_t t = interval.begin; t < interval.end; ++t) rows.push_back(t);
  }
  if (!layout.sequence_parallel || layout.tp == 1) return rows;
  const Interval slice = even_slice(static_cast<std::int64_t>(rows.size()), layout.tp, shard.tp_rank);
  return {rows.begin() + slice.begin, rows.begin() + slice.end};
}

}  // namespace samebits::test
