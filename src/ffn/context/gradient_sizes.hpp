// How weight gradients cross context ranks, from sizes alone: token_reduction.cpp does it, traffic.cpp counts
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ffn/context/token_places.hpp"
#include "numerics/tree.hpp"
#include "samebits/plan.hpp"

namespace samebits::ffn {

struct GradientSizes {
  std::int64_t hidden = 0;
  std::int64_t held = 0;     // rows of gate and up that the rank holds
  int cp = 1, per_node = 1;  // context ranks, and those of them on a machine (1: one level)
  std::size_t node_bytes = 4;
  int most_finish_nodes = 0;  // of the engine
  std::size_t budget = 0;     // PlanOptions::gradient_bytes

  std::int64_t widest() const { return hidden > held ? hidden : held; }

  // Rows of `widest` f32 columns that a block of a gradient may have, and a rank's slice of one.
  std::int64_t block_rows() const;
  std::int64_t slice_rows() const { return block_rows() / cp + 1; }

  // Cover nodes that buffers are made for, and the bytes of one of them.
  std::int64_t most_nodes() const;
  std::size_t cover_bytes() const;
};

// Whether this call's tokens are gathered; covers are exchanged otherwise. `tree` is that of all its tokens.
// Throws Error(refused) where covers are asked for and the shards do not allow them.
bool gathers_tokens(const GradientSizes& sizes, GradientReduction asked, const numerics::AxisTree& tree,
                    std::span<const TokenPlaces> of_rank);

// A node that a context rank holds: `index` among its nodes.
struct RankNode {
  Interval at;
  int rank = 0;
  std::int64_t index = 0;
};

// Nodes of a call's covers, at their most.
struct CoverCounts {
  std::int64_t sent = 0;    // by a rank: of its own tokens
  std::int64_t inside = 0;  // two levels: by the ranks of a machine together
  std::int64_t joined = 0;  // two levels: by a machine
  std::int64_t all = 0;     // what arrives in the end
};

// Rows of a gradient of `cols` columns that travel at once, so that the covers of each level fit in
// cover_bytes(). All ranks must cut alike.
std::int64_t rows_at_once(const GradientSizes& sizes, std::int64_t cols, bool gathers,
                          const CoverCounts& counts);

}  // namespace samebits::ffn
