// The rows of x, y, dy and dx that one rank holds.
#pragma once

#include <cstdint>
#include <vector>

#include "samebits/layout.hpp"
#include "samebits/view.hpp"
#include "shared/host_tensor.hpp"

namespace samebits::tools {

// As ascending intervals of the global sequence: the tokens of its context rank, or its slice of them.
std::vector<Interval> tokens_of_rank(const TokenShards& shards, const Layout& layout, int rank);

// visit(interval, rows): each interval, and where it lies among the rank's own rows.
template <class Visit>
void for_each_local(const std::vector<Interval>& tokens, const Visit& visit) {
  std::int64_t row = 0;
  for (const Interval& interval : tokens) {
    visit(interval, Interval{row, row + interval.length()});
    row += interval.length();
  }
}

// Elements of matrices of one shape and type, whose rows are packed.
void copy_rows(const View& to, const ConstView& from);

// The rank's rows of a whole tensor, packed.
HostTensor local_rows(const ConstView& whole, const std::vector<Interval>& tokens);

}  // namespace samebits::tools
