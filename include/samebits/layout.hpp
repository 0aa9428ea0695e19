// Who holds what: a grid of tp x cp ranks, sequence parallelism, and the token shards of a call. Pure
// integers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/export.hpp"

namespace samebits {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t length() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

struct Shape {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  bool operator==(const Shape&) const = default;
};

// rank = cp_rank * tp + tp_rank. Under sequence parallelism the tensor ranks of a context rank each hold a
// slice of its tokens (x, y, dy, dx); otherwise all of them hold all of its tokens.
struct Layout {
  int tp = 1;
  int cp = 1;
  bool sequence_parallel = false;
  int ranks() const { return tp * cp; }
  bool operator==(const Layout&) const = default;
};

// "tp1", "tp2+sp", "tp4+cp2+sp", "cp2".
SAMEBITS_API Layout parse_layout(std::string_view text);
SAMEBITS_API std::string name_of(const Layout& layout);

// The tokens of each context rank, as intervals of the global sequence; together they tile [0, tokens).
struct TokenShards {
  std::int64_t tokens = 0;
  std::vector<std::vector<Interval>> of_rank;  // [cp], each ascending

  // As even as whole tokens allow.
  SAMEBITS_API static TokenShards contiguous(std::int64_t tokens, int cp);
  // Ring attention's balance: 2*cp chunks, rank r holds chunks r and 2*cp-1-r.
  SAMEBITS_API static TokenShards zigzag(std::int64_t tokens, int cp);
  // Checks that the intervals tile the sequence.
  SAMEBITS_API static TokenShards of(std::vector<std::vector<Interval>> intervals);

  SAMEBITS_API std::int64_t count(int cp_rank) const;
};

// A part, of `parts`, of `count` things: [count*part/parts, count*(part+1)/parts).
SAMEBITS_API Interval even_slice(std::int64_t count, int parts, int part);

}  // namespace samebits
