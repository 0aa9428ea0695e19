#include "ffn/context/token_reduction.hpp"

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
      sizes_{options.shape.hidden,
             intermediate_held,
             ranks.cp,
             ranks.levels.per_node,
             size_of(engine::node_dtype(options.contract)),
             engine.most_finish_nodes(),
             options.gradient_bytes},
      gather_(ranks),
      rows_of_(static_cast<std::size_t>(ranks.cp)),
      bytes_of_(static_cast<std::size_t>(ranks.cp)) {
  if (ranks.cp == 1) return;
  runs_.reserve(2 * static_cast<std::size_t>(ranks.cp));
  const std::int64_t hidden = options.shape.hidden, tokens = options.max_tokens, widest = sizes_.widest();
  if (options.gradient_reduction != GradientReduction::exchange_covers) {
    arrived_ = workspace.matrix(tokens, widest);
    for (int slot = 0; slot < kSlots; ++slot) {
      gathered_.push_back(workspace.matrix(tokens, slot == kX || slot == kDy ? hidden : intermediate_held));
    }
  }
  if (options.gradient_reduction != GradientReduction::gather_tokens) {
    covers_.emplace(options.contract, ranks, engine, workspace, exchanges, sizes_.cover_bytes());
    const auto most_nodes = static_cast<std::size_t>(sizes_.most_nodes());
    nodes_.reserve(most_nodes);
    merges_.reserve(most_nodes);
    finish_.reserve(most_nodes);
  }
  block_ = workspace.matrix(sizes_.block_rows(), widest, DType::f32);
  slice_ = workspace.matrix(sizes_.slice_rows(), widest, DType::f32);
}

void TokenReduction::begin(const numerics::AxisTree& tree, std::span<const TokenPlaces> of_rank) {
  tree_ = tree;
  if (gathers_tokens(sizes_, options_.gradient_reduction, tree, of_rank)) {
    gather(of_rank);
  } else {
    keep(of_rank);
    list_nodes();
  }
}

void TokenReduction::gather(std::span<const TokenPlaces> of_rank) {
  keep(of_rank);
  gathers_ = ranks_.cp > 1;
  if (gathers_) list_runs(of_rank, runs_);
}

void TokenReduction::keep(std::span<const TokenPlaces> of_rank) {
  held_ = of_rank;
  gathers_ = false;
  tokens_ = 0;
  for (const TokenPlaces& places : of_rank) tokens_ += count_tokens(places);
}

void TokenReduction::list_nodes() {
  nodes_.clear();
  merges_.clear();
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    std::int64_t index = 0;
    for (const Interval& interval : held_by(rank)) {
      numerics::for_each_cover_node(tree_, interval.begin, interval.end, [&](const numerics::WalkStep& node) {
        nodes_.push_back({{node.begin, node.end}, rank, index++});
      });
    }
  }
  std::sort(nodes_.begin(), nodes_.end(),
            [](const RankNode& a, const RankNode& b) { return a.at.begin < b.at.begin; });
  covers_->settle(tree_, nodes_);
  const std::span<const Interval> arrives = covers_->arrives();
  numerics::for_each_finish_step(
      tree_, static_cast<std::int64_t>(arrives.size()),
      [&](std::int64_t i) { return arrives[static_cast<std::size_t>(i)].end; },
      [&](const numerics::WalkStep& step) { merges_.push_back(step.merges); });
}

ExchangeLane::Ticket TokenReduction::start(Slot slot, const ConstView& mine, ExchangeLane::Ticket arrival,
                                           Queue queue) {
  const ConstView counted = mine.slice_rows(0, count_tokens(held_by(ranks_.cp_rank)));
  operands_[slot] = {counted, arrival};
  if (gathers_) {
    const View all = packed(gathered_[slot], tokens_, mine.cols);
    operands_[slot] = {
        all, exchanges_.put([this, counted, all](Queue on) { gather_operand(counted, all, on); }, queue)};
  }
  return operands_[slot].arrival;
}

ConstView TokenReduction::operand(Slot slot, Queue queue) {
  exchanges_.wait(operands_[slot].arrival, queue);
  return operands_[slot].view;
}

void TokenReduction::gather_operand(const ConstView& mine, const View& all, Queue queue) {
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    bytes_of_[static_cast<std::size_t>(rank)] =
        checked_bytes(count_tokens(held_by(rank)), mine.cols, size_of(DType::bf16));
  }
  // Contiguous shards arrive in the order of the sequence, in one level.
  const auto slot_of = [&](int rank) { return ranks_.levels.slot_of(rank); };
  const bool in_order = std::is_sorted(runs_.begin(), runs_.end(), [&](const TokenRun& a, const TokenRun& b) {
    return a.rank != b.rank ? slot_of(a.rank) < slot_of(b.rank) : a.row < b.row;
  });
  const View arrived = in_order ? all : packed(arrived_, tokens_, mine.cols);
  gather_.run(mine.data, arrived.data, bytes_of_, engine_.device().space, queue);
  if (in_order) return;
  std::int64_t to = 0;
  for (const TokenRun& run : runs_) {
    std::int64_t from = run.row;
    for (int rank = 0; rank < ranks_.cp; ++rank) {
      if (slot_of(rank) < slot_of(run.rank)) from += count_tokens(held_by(rank));
    }
    const std::int64_t length = run.end - run.begin;
    engine_.copy(all.slice_rows(to, to + length), arrived.slice_rows(from, from + length), queue);
    to += length;
  }
}

void TokenReduction::reduce(const ConstView& left, const ConstView& right, const View& out,
                            engine::Block& block, Queue queue) {
  if (out.empty()) return;
  if (ranks_.cp == 1) {
    block.d_weight({left, right, tree_, held_by(0), {{}, out}}, queue);
    return;
  }
  const std::int64_t step =
      rows_at_once(sizes_, right.cols, gathers_, gathers_ ? CoverCounts{} : covers_->counts());
  for (std::int64_t row = 0; row < out.rows; row += step) {
    reduce_block(left, right, {row, std::min(out.rows, row + step)}, out, block, queue);
  }
}

void TokenReduction::reduce_block(const ConstView& left, const ConstView& right, Interval rows,
                                  const View& out, engine::Block& block, Queue queue) {
  const std::int64_t cols = right.cols;
  const Interval mine = ranks_.slice(rows.length(), ranks_.cp_rank);
  View slice = packed(slice_, mine.length(), cols);
  slice.dtype = out.dtype;
  for (int rank = 0; rank < ranks_.cp; ++rank)
    rows_of_[static_cast<std::size_t>(rank)] = ranks_.slice(rows.length(), rank).length();
  if (gathers_) {
    const Interval whole{0, tokens_};
    block.d_weight({left.slice_cols(rows.begin + mine.begin, rows.begin + mine.end),
                    right,
                    tree_,
                    {&whole, 1},
                    {{}, slice}},
                   queue);
  } else {
    // [row][node][col], slot behind slot: the rows as they stand.
    const int first = ranks_.levels.rank_at(0);
    block.d_weight({left.slice_cols(rows.begin, rows.end),
                    right,
                    tree_,
                    held_by(ranks_.cp_rank),
                    {covers_->leave_for(first, rows_of_, cols), {}}},
                   queue);
    covers_->move(rows_of_, cols, block, queue);
    finish_.clear();
    for (std::size_t i = 0; i < covers_->arrives().size(); ++i)
      finish_.push_back(covers_->node(i, merges_[i]));
    block.finish({finish_, {}, slice}, queue);
  }
  const View part = out.slice_rows(rows.begin, rows.end);
  const bool direct = part.contiguous();
  View target = direct ? part : packed(block_, rows.length(), cols);
  target.dtype = out.dtype;
  exchanges_.run(
      [this, slice, target](Queue on) {
        for (std::size_t rank = 0; rank < bytes_of_.size(); ++rank)
          bytes_of_[rank] = checked_bytes(rows_of_[rank], slice.cols, size_of(slice.dtype));
        gather_.run(slice.data, target.data, bytes_of_, engine_.device().space, on);
      },
      queue);
  if (!direct) engine_.copy(part, target, queue);
}

}  // namespace samebits::ffn
