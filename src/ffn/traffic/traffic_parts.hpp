// What the counters of traffic share: the bytes of one collective.
#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "samebits/traffic.hpp"

namespace samebits::ffn {

using Bytes = std::vector<std::size_t>;  // by rank of a group

inline std::size_t matrix_bytes(std::int64_t a, std::int64_t b, std::size_t size) {
  return static_cast<std::size_t>(a * b) * size;
}

inline std::size_t sum_of(const Bytes& all) {
  return std::accumulate(all.begin(), all.end(), std::size_t{0});
}

inline Collective gather_of(std::string what, const Bytes& of_rank, int me, bool over_context) {
  const std::size_t mine = of_rank[static_cast<std::size_t>(me)];
  return {std::move(what),
          CollectiveKind::all_gather,
          static_cast<int>(of_rank.size()),
          over_context,
          1,
          mine * (of_rank.size() - 1),
          sum_of(of_rank) - mine};
}

inline Collective exchange_of(std::string what, const Bytes& sends, const Bytes& receives, int me,
                              bool over_context) {
  const auto at = static_cast<std::size_t>(me);
  return {std::move(what),
          CollectiveKind::all_to_all,
          static_cast<int>(sends.size()),
          over_context,
          1,
          sum_of(sends) - sends[at],
          sum_of(receives) - receives[at]};
}

// Another of the same kind.
inline void join(Collective& to, const Collective& more) {
  if (to.what.empty()) {
    to = more;
    return;
  }
  ++to.times;
  to.sent += more.sent;
  to.received += more.received;
}

}  // namespace samebits::ffn
