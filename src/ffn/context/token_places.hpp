// Which tokens of a sequence a rank holds, as intervals: ascending, apart. Numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samebits/layout.hpp"

namespace samebits::ffn {

using TokenPlaces = std::vector<Interval>;

std::int64_t count_tokens(std::span<const Interval> places);

// The leading tokens of each rank: those that stand before `end`.
void clip(std::span<const TokenPlaces> of_rank, std::int64_t end, std::vector<TokenPlaces>& clipped);

// A run of tokens that stand together and that one rank holds together, from its row `row` on.
struct TokenRun {
  std::int64_t begin = 0, end = 0;
  int rank = 0;
  std::int64_t row = 0;
};
// All ranks' runs in the order of the sequence. Throws Error(invalid_argument) where two of them overlap.
void list_runs(std::span<const TokenPlaces> of_rank, std::vector<TokenRun>& runs);

// Appends, as one interval with the last where it begins at its end.
void append(TokenPlaces& places, const Interval& interval);

}  // namespace samebits::ffn
