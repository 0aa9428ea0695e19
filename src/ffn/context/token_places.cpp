#include "ffn/context/token_places.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "samebits/error.hpp"

namespace samebits::ffn {

std::int64_t count_tokens(std::span<const Interval> places) {
  std::int64_t count = 0;
  for (const Interval& interval : places) count += interval.length();
  return count;
}

void clip(std::span<const TokenPlaces> of_rank, std::int64_t end, std::vector<TokenPlaces>& clipped) {
  clipped.resize(of_rank.size());
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    clipped[rank].clear();
    for (const Interval& interval : of_rank[rank]) {
      if (interval.begin < end) clipped[rank].push_back({interval.begin, std::min(interval.end, end)});
    }
  }
}

void list_runs(std::span<const TokenPlaces> of_rank, std::vector<TokenRun>& runs) {
  runs.clear();
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    std::int64_t row = 0;
    for (const Interval& interval : of_rank[rank]) {
      runs.push_back({interval.begin, interval.end, static_cast<int>(rank), row});
      row += interval.length();
    }
  }
  std::sort(runs.begin(), runs.end(), [](const TokenRun& a, const TokenRun& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].begin >= runs[i - 1].end) continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("token {} stands on context rank {} and on {}",
                                                         runs[i].begin, runs[i - 1].rank, runs[i].rank));
  }
}

void append(TokenPlaces& places, const Interval& interval) {
  if (!places.empty() && places.back().end == interval.begin) {
    places.back().end = interval.end;
  } else {
    places.push_back(interval);
  }
}

}  // namespace samebits::ffn
