#include "ffn/context/gradient_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ffn/rank/workspace.hpp"
#include "layout/cuts.hpp"
#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::ffn {
namespace {

// Rows of a rank's slice: a tile's, or what sixteen bytes hold, which an engine's fast kernels want to begin
// at.
constexpr std::int64_t kTileRows = 128, kAlignedRows = 8;

}  // namespace

// Gradients cross ranks in blocks of rows, so that the buffers for them stay small beside the weights.
std::int64_t GradientSizes::block_rows() const {
  const auto floats = static_cast<std::int64_t>(budget / 4 / sizeof(float));
  return std::max<std::int64_t>((floats + widest() - 1) / widest(), cp);
}

// As many nodes as one row of the widest result may have; with more, tokens are gathered.
std::int64_t GradientSizes::most_nodes() const {
  const std::int64_t most =
      std::max<std::int64_t>(2 * cp, static_cast<std::int64_t>(budget / node_bytes) / widest());
  return std::min<std::int64_t>(most, most_finish_nodes);
}

std::size_t GradientSizes::cover_bytes() const {
  return std::max(budget, checked_bytes(widest(), most_nodes(), node_bytes));
}

bool gathers_tokens(const GradientSizes& sizes, GradientReduction asked, const numerics::AxisTree& tree,
                    std::span<const TokenPlaces> of_rank) {
  if (sizes.cp == 1 || asked == GradientReduction::gather_tokens) return true;
  if (!layout::cuts_between_leaves(tree, of_rank)) {
    if (asked == GradientReduction::automatic) return true;
    throw Error(
        ErrorCode::refused,
        fmt::format(
            "exchanging gradient covers: a token shard of {} tokens over cp{} cuts inside a leaf of the "
            "contract's token axis; gather the tokens instead",
            tree.length, sizes.cp));
  }
  std::int64_t count = 0;
  for (const auto& intervals : of_rank) {
    for (const Interval& interval : intervals)
      count += numerics::count_cover_nodes(tree, interval.begin, interval.end);
  }
  if (count > sizes.most_nodes()) {
    if (asked == GradientReduction::automatic) return true;
    throw Error(ErrorCode::refused,
                fmt::format("exchanging gradient covers: {} cover nodes are more than the plan's {}; gather "
                            "the tokens instead",
                            count, sizes.most_nodes()));
  }
  const double gather =
      2.0 * static_cast<double>(tree.length) * static_cast<double>(2 * sizes.hidden + 3 * sizes.held);
  const double exchange = 3.0 * static_cast<double>(sizes.held) * static_cast<double>(sizes.hidden) *
                          static_cast<double>(sizes.node_bytes) * static_cast<double>(count) / sizes.cp;
  return asked == GradientReduction::automatic && gather <= exchange;
}

std::int64_t rows_at_once(const GradientSizes& sizes, std::int64_t cols, bool gathers,
                          const CoverCounts& counts) {
  std::int64_t rows = sizes.block_rows() * sizes.widest() / cols;
  rows = std::min(rows, (sizes.slice_rows() - 1) * sizes.widest() / cols * sizes.cp);
  if (!gathers) {
    // A rank sends its nodes of all rows. In two levels its machine's ranks send it those of one place's
    // rows, of which it sends the machine's nodes on. All nodes of its slice arrive.
    const std::int64_t row_bytes = cols * static_cast<std::int64_t>(sizes.node_bytes);
    const auto budget = static_cast<std::int64_t>(sizes.budget);
    const auto fit = [&](std::int64_t nodes, std::int64_t parts) {
      if (nodes > 0) rows = std::min(rows, (budget / (nodes * row_bytes) - (parts > 1 ? 1 : 0)) * parts);
    };
    fit(counts.sent, 1);
    fit(counts.inside, sizes.per_node);
    fit(counts.joined, sizes.per_node);
    fit(counts.all, sizes.cp);
  }
  for (const std::int64_t granule : {kTileRows * sizes.cp, kAlignedRows * sizes.cp}) {
    if (rows >= granule) return rows - rows % granule;
  }
  return std::max<std::int64_t>(rows, 1);
}

}  // namespace samebits::ffn
