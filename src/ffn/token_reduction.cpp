#include "ffn/token_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "layout/cuts.hpp"
#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::ffn {
namespace {

// Gradients cross ranks in blocks of rows, so that the buffers for them stay small beside the weights.
constexpr std::size_t kBlockBytes = std::size_t{8} << 20;
constexpr std::size_t kCoverBytes = std::size_t{32} << 20;

}  // namespace

TokenReduction::TokenReduction(const PlanOptions& options, Ranks& ranks, engine::Engine& engine,
                               Workspace& workspace, std::int64_t intermediate_held)
    : options_(options),
      ranks_(ranks),
      engine_(engine),
      intermediate_held_(intermediate_held),
      node_bytes_(options.contract.node == Precision::f32 ? 4 : 2),
      nodes_of_(static_cast<std::size_t>(ranks.cp)),
      send_bytes_(static_cast<std::size_t>(ranks.cp)),
      receive_bytes_(static_cast<std::size_t>(ranks.cp)) {
  if (ranks.cp == 1) return;
  const std::int64_t hidden = options.shape.hidden, tokens = options.max_tokens;
  const std::int64_t widest = std::max(hidden, intermediate_held);
  if (options.gradient_reduction != GradientReduction::exchange_covers) {
    arrived_ = workspace.matrix(tokens, widest);
    for (int slot = 0; slot < kSlots; ++slot) {
      gathered_.push_back(workspace.matrix(tokens, slot == kX || slot == kDy ? hidden : intermediate_held));
    }
  }
  if (options.gradient_reduction != GradientReduction::gather_tokens) {
    // As many nodes as one row of the widest result may have; with more, tokens are gathered.
    most_nodes_ =
        std::max<std::int64_t>(2 * ranks.cp, static_cast<std::int64_t>(kCoverBytes / node_bytes_) / widest);
    most_nodes_ = std::min<std::int64_t>(most_nodes_, engine.most_finish_nodes());
    const std::size_t bytes = std::max(kCoverBytes, checked_bytes(widest, most_nodes_, node_bytes_));
    send_ = workspace.take(bytes);
    receive_ = workspace.take(bytes);
    nodes_.reserve(static_cast<std::size_t>(most_nodes_));
    merges_.reserve(nodes_.capacity());
    finish_.reserve(nodes_.capacity());
  }
  const std::int64_t block =
      std::max<std::int64_t>(static_cast<std::int64_t>(kBlockBytes / sizeof(float)) / widest, ranks.cp);
  block_ = workspace.matrix(block, widest, DType::f32);
  slice_ = workspace.matrix(block / ranks.cp + 1, widest, DType::f32);
}

void TokenReduction::begin(const numerics::AxisTree& tree, const TokenShards& shards) {
  tree_ = tree;
  shards_ = &shards;
  gathers_ = true;
  if (ranks_.cp == 1 || options_.gradient_reduction == GradientReduction::gather_tokens) return;
  const bool legal = layout::cuts_between_leaves(tree, shards);
  if (!legal) {
    if (options_.gradient_reduction == GradientReduction::automatic) return;
    throw Error(
        ErrorCode::refused,
        fmt::format(
            "exchanging gradient covers: a token shard of {} tokens over cp{} cuts inside a leaf of the "
            "contract's token axis; gather the tokens instead",
            shards.tokens, ranks_.cp));
  }
  std::int64_t count = 0;
  for (const auto& intervals : shards.of_rank) {
    for (const Interval& interval : intervals)
      count += numerics::count_cover_nodes(tree, interval.begin, interval.end);
  }
  if (count > most_nodes_) {
    if (options_.gradient_reduction == GradientReduction::automatic) return;
    throw Error(ErrorCode::refused,
                fmt::format("exchanging gradient covers: {} cover nodes are more than the plan's {}; gather "
                            "the tokens instead",
                            count, most_nodes_));
  }
  list_nodes();
  const std::int64_t hidden = options_.shape.hidden, held = intermediate_held_;
  const double gather = 2.0 * static_cast<double>(shards.tokens) * static_cast<double>(2 * hidden + 3 * held);
  const double exchange = 3.0 * static_cast<double>(held) * static_cast<double>(hidden) *
                          static_cast<double>(node_bytes_) * static_cast<double>(nodes_.size()) / ranks_.cp;
  gathers_ = options_.gradient_reduction == GradientReduction::automatic && gather <= exchange;
}

void TokenReduction::list_nodes() {
  nodes_.clear();
  merges_.clear();
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    std::int64_t index = 0;
    for (const Interval& interval : held_by(rank)) {
      numerics::for_each_cover_node(tree_, interval.begin, interval.end, [&](const numerics::WalkStep& node) {
        nodes_.push_back({node.begin, node.end, rank, index++});
      });
    }
    nodes_of_[static_cast<std::size_t>(rank)] = index;
  }
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.begin < b.begin; });
  numerics::for_each_finish_step(
      tree_, static_cast<std::int64_t>(nodes_.size()),
      [&](std::int64_t i) { return nodes_[static_cast<std::size_t>(i)].end; },
      [&](const numerics::WalkStep& step) { merges_.push_back(step.merges); });
}

ConstView TokenReduction::operand(Slot slot, const ConstView& mine, Queue queue) {
  if (ranks_.cp == 1 || !gathers_) return mine;
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    receive_bytes_[static_cast<std::size_t>(rank)] =
        checked_bytes(shards_->count(rank), mine.cols, size_of(DType::bf16));
  }
  const View all = packed(gathered_[slot], shards_->tokens, mine.cols);
  // Contiguous shards arrive in global order.
  std::int64_t expected = 0;
  bool in_order = true;
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    for (const Interval& interval : held_by(rank)) {
      in_order = in_order && interval.begin == expected;
      expected = interval.end;
    }
  }
  const View arrived = in_order ? all : packed(arrived_, shards_->tokens, mine.cols);
  ranks_.context->all_gather(mine.data, arrived.data, receive_bytes_, engine_.device().space, queue);
  if (!in_order) {
    std::int64_t from = 0;
    for (int rank = 0; rank < ranks_.cp; ++rank) {
      for (const Interval& interval : held_by(rank)) {
        engine_.copy(all.slice_rows(interval.begin, interval.end),
                     arrived.slice_rows(from, from + interval.length()), queue);
        from += interval.length();
      }
    }
  }
  return all;
}

std::int64_t TokenReduction::rows_of_block(std::int64_t cols) const {
  std::int64_t rows = block_.rows * block_.cols / cols;
  rows = std::min(rows, (slice_.rows - 1) * slice_.cols / cols * ranks_.cp);
  if (!gathers_) {
    // Every rank sends its nodes of all rows and receives all nodes of its slice; all ranks must cut alike.
    const auto all = static_cast<std::int64_t>(nodes_.size());
    const std::int64_t most =
        std::max<std::int64_t>(*std::max_element(nodes_of_.begin(), nodes_of_.end()), 1);
    const std::int64_t row_bytes = cols * static_cast<std::int64_t>(node_bytes_);
    const std::int64_t budget = static_cast<std::int64_t>(kCoverBytes);
    rows = std::min(rows, budget / (most * row_bytes));
    rows = std::min(rows, (budget / std::max<std::int64_t>(all * row_bytes, 1) - 1) * ranks_.cp);
  }
  return std::max<std::int64_t>(rows, 1);
}

void TokenReduction::reduce(const ConstView& left, const ConstView& right, const View& out,
                            engine::Block& block, Queue queue) {
  if (out.empty()) return;
  if (ranks_.cp == 1) {
    block.d_weight({left, right, tree_, held_by(0), {{}, out}}, queue);
    return;
  }
  const std::int64_t step = rows_of_block(right.cols);
  for (std::int64_t row = 0; row < out.rows; row += step) {
    reduce_block(left, right, {row, std::min(out.rows, row + step)}, out, block, queue);
  }
}

void TokenReduction::reduce_block(const ConstView& left, const ConstView& right, Interval rows,
                                  const View& out, engine::Block& block, Queue queue) {
  const MemorySpace space = engine_.device().space;
  const std::int64_t cols = right.cols;
  const Interval mine = even_slice(rows.length(), ranks_.cp, ranks_.cp_rank);
  View slice = packed(slice_, mine.length(), cols);
  slice.dtype = out.dtype;
  if (gathers_) {
    const Interval whole{0, shards_->tokens};
    block.d_weight({left.slice_cols(rows.begin + mine.begin, rows.begin + mine.end),
                    right,
                    tree_,
                    {&whole, 1},
                    {{}, slice}},
                   queue);
  } else {
    const std::int64_t nodes = nodes_of_[static_cast<std::size_t>(ranks_.cp_rank)];
    // [row][node][col], so that a slice of rows is one run of bytes.
    block.d_weight({left.slice_cols(rows.begin, rows.end),
                    right,
                    tree_,
                    held_by(ranks_.cp_rank),
                    {{send_, nodes, nodes * cols, cols}, {}}},
                   queue);
    for (int rank = 0; rank < ranks_.cp; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      send_bytes_[at] =
          checked_bytes(even_slice(rows.length(), ranks_.cp, rank).length(), nodes * cols, node_bytes_);
      receive_bytes_[at] = checked_bytes(mine.length(), nodes_of_[at] * cols, node_bytes_);
    }
    ranks_.context->all_to_all(send_, send_bytes_, receive_, receive_bytes_, space, queue);
    finish_.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      const auto rank = static_cast<std::size_t>(node.rank);
      const std::size_t before =
          std::accumulate(receive_bytes_.begin(), receive_bytes_.begin() + node.rank, std::size_t{0});
      const auto* const data = static_cast<const unsigned char*>(receive_) + before +
                               static_cast<std::size_t>(node.index * cols) * node_bytes_;
      finish_.push_back({data, nodes_of_[rank] * cols, merges_[i]});
    }
    block.finish({finish_, {}, slice}, queue);
  }
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    receive_bytes_[static_cast<std::size_t>(rank)] =
        checked_bytes(even_slice(rows.length(), ranks_.cp, rank).length(), cols, size_of(out.dtype));
  }
  const View part = out.slice_rows(rows.begin, rows.end);
  const bool direct = part.contiguous();
  View target = direct ? part : packed(block_, rows.length(), cols);
  target.dtype = out.dtype;
  ranks_.context->all_gather(slice.data, target.data, receive_bytes_, space, queue);
  if (!direct) engine_.copy(part, target, queue);
}

}  // namespace samebits::ffn
