#include "ffn/token_reduction.hpp"

#include <algorithm>
#include <numeric>

#include "numerics/walk.hpp"

namespace samebits::ffn {
TokenReduction::TokenReduction(const PlanOptions& options, Ranks& ranks, engine::Engine& engine,
                               Workspace& workspace, ExchangeLane& exchanges, std::int64_t intermediate_held)
    : options_(options),
      ranks_(ranks),
      engine_(engine),
      exchanges_(exchanges),
      sizes_{options.shape.hidden, intermediate_held, ranks.cp,
             std::size_t{options.contract.node == Precision::f32 ? 4u : 2u}, engine.most_finish_nodes()},
      node_bytes_(sizes_.node_bytes),
      nodes_of_(static_cast<std::size_t>(ranks.cp)),
      send_bytes_(static_cast<std::size_t>(ranks.cp)),
      receive_bytes_(static_cast<std::size_t>(ranks.cp)) {
  if (ranks.cp == 1) return;
  const std::int64_t hidden = options.shape.hidden, tokens = options.max_tokens, widest = sizes_.widest();
  if (options.gradient_reduction != GradientReduction::exchange_covers) {
    arrived_ = workspace.matrix(tokens, widest);
    for (int slot = 0; slot < kSlots; ++slot) {
      gathered_.push_back(workspace.matrix(tokens, slot == kX || slot == kDy ? hidden : intermediate_held));
    }
  }
  if (options.gradient_reduction != GradientReduction::gather_tokens) {
    const auto most_nodes = static_cast<std::size_t>(sizes_.most_nodes());
    send_ = workspace.take(sizes_.cover_bytes());
    receive_ = workspace.take(sizes_.cover_bytes());
    nodes_.reserve(most_nodes);
    merges_.reserve(most_nodes);
    finish_.reserve(most_nodes);
  }
  block_ = workspace.matrix(sizes_.block_rows(), widest, DType::f32);
  slice_ = workspace.matrix(sizes_.slice_rows(), widest, DType::f32);
}

void TokenReduction::begin(const numerics::AxisTree& tree, const TokenShards& shards) {
  tree_ = tree;
  shards_ = &shards;
  gathers_ = gathers_tokens(sizes_, options_.gradient_reduction, tree, shards);
  if (!gathers_) list_nodes();
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

ExchangeLane::Ticket TokenReduction::start(Slot slot, const ConstView& mine, ExchangeLane::Ticket arrival,
                                           Queue queue) {
  operands_[slot] = {mine, arrival};
  if (gathers()) {
    const View all = packed(gathered_[slot], shards_->tokens, mine.cols);
    operands_[slot] = {all, exchanges_.put([this, mine, all](Queue on) { gather(mine, all, on); }, queue)};
  }
  return operands_[slot].arrival;
}

ConstView TokenReduction::operand(Slot slot, Queue queue) {
  exchanges_.wait(operands_[slot].arrival, queue);
  return operands_[slot].view;
}

void TokenReduction::gather(const ConstView& mine, const View& all, Queue queue) {
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    receive_bytes_[static_cast<std::size_t>(rank)] =
        checked_bytes(shards_->count(rank), mine.cols, size_of(DType::bf16));
  }
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
}

void TokenReduction::reduce(const ConstView& left, const ConstView& right, const View& out,
                            engine::Block& block, Queue queue) {
  if (out.empty()) return;
  if (ranks_.cp == 1) {
    block.d_weight({left, right, tree_, held_by(0), {{}, out}}, queue);
    return;
  }
  GradientNodes nodes{static_cast<std::int64_t>(nodes_.size()), 0};
  if (!gathers_) nodes.most = *std::max_element(nodes_of_.begin(), nodes_of_.end());
  const std::int64_t step = rows_at_once(sizes_, right.cols, gathers_, nodes);
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
    exchanges_.run(
        [this, rows, mine, nodes, cols, space](Queue on) {
          for (int rank = 0; rank < ranks_.cp; ++rank) {
            const auto at = static_cast<std::size_t>(rank);
            send_bytes_[at] =
                checked_bytes(even_slice(rows.length(), ranks_.cp, rank).length(), nodes * cols, node_bytes_);
            receive_bytes_[at] = checked_bytes(mine.length(), nodes_of_[at] * cols, node_bytes_);
          }
          ranks_.context->all_to_all(send_, send_bytes_, receive_, receive_bytes_, space, on);
        },
        queue);
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
  const View part = out.slice_rows(rows.begin, rows.end);
  const bool direct = part.contiguous();
  View target = direct ? part : packed(block_, rows.length(), cols);
  target.dtype = out.dtype;
  exchanges_.run(
      [this, rows, cols, space, slice, target](Queue on) {
        for (int rank = 0; rank < ranks_.cp; ++rank) {
          receive_bytes_[static_cast<std::size_t>(rank)] =
              checked_bytes(even_slice(rows.length(), ranks_.cp, rank).length(), cols, size_of(slice.dtype));
        }
        ranks_.context->all_gather(slice.data, target.data, receive_bytes_, space, on);
      },
      queue);
  if (!direct) engine_.copy(part, target, queue);
}

}  // namespace samebits::ffn
