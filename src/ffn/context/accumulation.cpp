#include "ffn/context/accumulation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "samebits/error.hpp"

namespace samebits::ffn {
namespace {

// Longer than any sequence, for trees whose nodes do not depend on the length.
constexpr std::int64_t kEndless = std::int64_t{1} << 60;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 50;
constexpr std::int64_t kMostSlots = std::int64_t{1} << 16;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

numerics::AxisTree growing_tree(const Contract& contract, const AccumulatorOptions& options) {
  const AxisRule& rule = contract.tokens;
  const bool any_length = rule.rule == Rule::block || (rule.rule == Rule::halve && rule.value == 0);
  if (options.tokens < 0 && !any_length) {
    refuse(
        "the contract's token tree depends on the number of tokens: say beforehand how many all calls "
        "together will add (AccumulatorOptions::tokens)");
  }
  return numerics::axis_tree(contract, rule, options.tokens < 0 ? kEndless : options.tokens);
}

bool gathers(GradientReduction plan, GradientReduction asked) {
  if (plan != GradientReduction::automatic && asked != GradientReduction::automatic && plan != asked) {
    refuse(
        "the plan was made for one way to reduce gradients over context ranks, the accumulator for the "
        "other");
  }
  return plan != GradientReduction::exchange_covers && asked != GradientReduction::exchange_covers;
}

int slots_of(const AccumulatorOptions& options, const numerics::AxisTree& tree) {
  const std::int64_t tokens = options.tokens < 0 ? options.max_tokens : options.tokens;
  if (options.tokens < -1 || tokens < 0 || tokens > kMostTokens || options.stretches < 1) {
    refuse(fmt::format("an accumulator of {} tokens in {} stretches",
                       options.tokens < -1 ? options.tokens : tokens, options.stretches));
  }
  const std::int64_t most = most_held(tree, tokens);
  const std::int64_t slots = options.stretches == 1 ? most : 2 * (most + 1) * options.stretches;
  if (slots > kMostSlots)
    refuse(fmt::format("a sum in {} stretches would hold {} nodes", options.stretches, slots));
  return static_cast<int>(slots);
}

}  // namespace

Accumulation::Accumulation(const AccumulatorOptions& options, const PlanOptions& plan, Ranks& ranks,
                           engine::Engine& engine, ExchangeLane& exchanges, std::int64_t intermediate_held)
    : options_(options),
      contract_(plan.contract),
      ranks_(ranks),
      engine_(engine),
      exchanges_(exchanges),
      workspace_(engine),
      gathers_(gathers(plan.gradient_reduction, options.reduction)),
      node_bytes_(size_of(engine::node_dtype(plan.contract))),
      budget_(plan.gradient_bytes),
      tree_(growing_tree(plan.contract, options)),
      slots_(slots_of(options, tree_)),
      nodes_(std::max(1, slots_)),
      holders_(sends_covers() ? static_cast<std::size_t>(ranks.cp) : 1),
      gather_(ranks),
      lists_(holders_.size()),
      rows_of_(static_cast<std::size_t>(ranks.cp)),
      bytes_of_(static_cast<std::size_t>(ranks.cp)) {
  if (options_.tokens > options_.max_tokens) options_.max_tokens = options_.tokens;
  const std::int64_t hidden = plan.shape.hidden, widest = std::max(hidden, intermediate_held);
  for (Sum& sum : sums_) {
    const bool down = &sum == &sums_[kDown];
    sum.rows = down ? hidden : intermediate_held;
    sum.cols = down ? intermediate_held : hidden;
    const std::int64_t own = own_rows(sum, ranks.cp_rank).length();
    for (int slot = 0; slot < slots_; ++slot)
      sum.slots.push_back(workspace_.matrix(own, sum.cols, engine::node_dtype(contract_)));
    sum.open = workspace_.matrix(sends_covers() ? sum.rows : own, sum.cols, DType::f32);
  }
  const std::size_t cover_bytes = std::max(budget_, checked_bytes(widest, ranks.cp, node_bytes_));
  if (sends_covers()) {
    covers_.emplace(contract_, ranks, engine, workspace_, exchanges, cover_bytes);
  } else {
    cover_ = workspace_.take(cover_bytes);
  }
  if (ranks.cp > 1) {
    const std::int64_t rows =
        std::max<std::int64_t>(static_cast<std::int64_t>(budget_ / 4 / sizeof(float)) / widest, ranks.cp);
    block_ = workspace_.matrix(rows, widest, DType::f32);
    slice_ = workspace_.matrix(rows / ranks.cp, widest, DType::f32);
  }
  // A call of even or zigzag shards.
  const auto most = static_cast<std::size_t>(std::clamp(slots_, 1, 64)),
             runs = 2 * static_cast<std::size_t>(ranks.cp);
  runs_.reserve(runs);
  for (TokenPlaces& list : lists_) list.reserve(runs);
  next_.reserve(holders_.size());
  added_.reserve(2 * most * runs);
  added_nodes_.reserve(2 * most * runs);
  inputs_.reserve(2 * most * runs + most);
}

void Accumulation::clear() {
  taken_ = 0;
  half_added_ = false;
  nodes_.clear();
  std::fill(holders_.begin(), holders_.end(), Holder{});
}

// Nodes are merged where they lie: what a call has begun to add cannot be taken back.
void Accumulation::require_whole() const {
  if (half_added_) refuse("a call that failed has left the sum half added to: clear it and begin again");
}

void Accumulation::begin(std::span<const TokenPlaces> places, TokenReduction& reduction) {
  require_whole();
  finishes_ = false;
  list_runs(places, runs_);
  next_ = holders_;
  next_taken_ = taken_;
  for (TokenPlaces& list : lists_) list.clear();
  for (const TokenRun& run : runs_) {
    append(lists_[sends_covers() ? static_cast<std::size_t>(run.rank) : 0], {run.begin, run.end});
    next_taken_ += run.end - run.begin;
    const std::int64_t end = options_.tokens < 0 ? options_.max_tokens : options_.tokens;
    if (run.begin < 0 || run.end > end || next_taken_ > end) {
      refuse(fmt::format("tokens {} to {} of a sequence that was to have {}", run.begin, run.end, end));
    }
  }
  added_.clear();
  for (std::size_t holder = 0; holder < holders_.size(); ++holder) settle_holder(static_cast<int>(holder));
  list_added(tree_);
  if (gathers_) {
    reduction.gather(places);
  } else {
    reduction.keep(places);
  }
}

// What the holder's tokens complete, and what they leave open.
void Accumulation::settle_holder(int number) {
  Holder& holder = next_[static_cast<std::size_t>(number)];
  std::int64_t index = 0;
  for (const Interval& interval : lists_[static_cast<std::size_t>(number)]) {
    const numerics::Stretch stretch = numerics::stretch_of(tree_, interval.begin, interval.end);
    const std::int64_t expected = holder.leaf.length() > 0 ? holder.at : stretch.leaves_begin;
    if (interval.begin != expected) {
      refuse(fmt::format(
          "tokens from {} on were added{}, where the leaf that begins at {} must go on with token {}: {}",
          interval.begin, sends_covers() ? fmt::format(" by context rank {}", number) : std::string(),
          holder.leaf.length() > 0 ? holder.leaf.begin : stretch.leaves_begin, expected,
          sends_covers() ? "cut between leaves where another rank goes on, or gather the tokens"
                         : "tokens of a leaf are added in their order"));
    }
    if (stretch.resumes && (interval.begin - stretch.leaves_begin) % tree_.granule != 0) {
      refuse(fmt::format(
          "token {} was to go on inside the leaf that begins at {}: calls are cut at multiples of {} there",
          interval.begin, stretch.leaves_begin, tree_.granule));
    }
    numerics::for_each_cover_node(tree_, stretch.leaves_begin, stretch.leaves_end,
                                  [&](const numerics::WalkStep& node) {
                                    added_.push_back({{node.begin, node.end}, number, index++});
                                  });
    holder = stretch.stays_open ? Holder{tree_.leaf_at(interval.end - 1), interval.end} : Holder{};
  }
}

void Accumulation::list_added(const numerics::AxisTree& tree) {
  std::sort(added_.begin(), added_.end(),
            [](const RankNode& a, const RankNode& b) { return a.at.begin < b.at.begin; });
  added_nodes_.clear();
  if (covers_) {
    covers_->settle(tree, added_);
    added_nodes_.assign(covers_->arrives().begin(), covers_->arrives().end());
  } else {
    for (const RankNode& node : added_) added_nodes_.push_back(node.at);
  }
  nodes_.plan(tree, added_nodes_);
  std::size_t most = covers_ ? static_cast<std::size_t>(covers_->counts().inside) : 0;
  for (const HeldNodes::Step& step : nodes_.steps()) most = std::max(most, nodes_.inputs(step).size());
  if (most > static_cast<std::size_t>(engine_.most_finish_nodes())) {
    throw Error(ErrorCode::refused,
                fmt::format("a call that joins {} nodes, where the engine joins {}: add fewer "
                            "tokens a call, or fill fewer gaps",
                            most, engine_.most_finish_nodes()));
  }
  for (const Sum& sum : sums_) {
    if (added_.size() <= 1 || checked_bytes(nodes_a_row(), sum.cols, node_bytes_) <= budget_) continue;
    throw Error(
        ErrorCode::refused,
        fmt::format("a call that brings {} nodes of {} columns at once: add fewer tokens a call, or give the "
                    "plan more gradient_bytes",
                    added_.size(), sum.cols));
  }
}

// Nodes in the largest buffer, for one row of every rank's slice.
std::int64_t Accumulation::nodes_a_row() const {
  if (!covers_) return static_cast<std::int64_t>(added_.size());
  const CoverCounts& counts = covers_->counts();
  return std::max(
      {counts.sent * ranks_.cp, std::max(counts.inside, counts.joined) * ranks_.levels.nodes, counts.all});
}

// Rows of every rank's slice that are worked on together.
std::int64_t Accumulation::strip_rows(const Sum& sum) const {
  std::int64_t rows = most_own_rows(sum);
  const std::size_t row_bytes = checked_bytes(nodes_a_row(), sum.cols, node_bytes_);
  if (row_bytes > 0 && (covers_ || !finishes_))
    rows = std::min(rows, static_cast<std::int64_t>(budget_ / row_bytes));
  if (finishes_ && ranks_.cp > 1)
    rows = std::min(rows, slice_.elements() / std::max<std::int64_t>(sum.cols, 1));
  return std::max<std::int64_t>(rows, 1);
}

Interval Accumulation::strip(const Sum& sum, std::int64_t number, int rank) const {
  const Interval own = own_rows(sum, rank);
  const std::int64_t rows = strip_rows(sum);
  return {std::min(own.end, own.begin + number * rows), std::min(own.end, own.begin + (number + 1) * rows)};
}

std::int64_t Accumulation::strips(const Sum& sum) const {
  if (sum.cols == 0) return 0;
  const std::int64_t rows = strip_rows(sum);
  return (most_own_rows(sum) + rows - 1) / rows;
}

engine::OpenLeaf Accumulation::open_rows(const Sum& sum, std::int64_t row) const {
  const std::int64_t first = sends_covers() ? 0 : own_rows(sum, ranks_.cp_rank).begin;
  return {static_cast<float*>(sum.open.data) + (row - first) * sum.cols, sum.cols};
}

// Brings the nodes of strip `number` to where list_inputs finds them. `leave(rows, cover)` leaves this rank's
// nodes of some rows there.
template <class Leave>
void Accumulation::bring_nodes(const Sum& sum, std::int64_t number, const Leave& leave, engine::Block& block,
                               Queue queue) {
  if (!covers_) {
    const Interval mine = strip(sum, number, ranks_.cp_rank);
    const auto nodes = static_cast<std::int64_t>(added_.size());
    if (mine.length() > 0) leave(mine, engine::CoverView{cover_, nodes, nodes * sum.cols, sum.cols});
    return;
  }
  for (int rank = 0; rank < ranks_.cp; ++rank)
    rows_of_[static_cast<std::size_t>(rank)] = strip(sum, number, rank).length();
  for (int rank = 0; rank < ranks_.cp; ++rank) {
    const Interval rows = strip(sum, number, rank);
    if (rows.length() > 0) leave(rows, covers_->leave_for(rank, rows_of_, sum.cols));
  }
  if (!added_.empty()) covers_->move(rows_of_, sum.cols, block, queue);
}

void Accumulation::list_inputs(const Sum& sum, std::int64_t number,
                               std::span<const HeldNodes::Input> inputs) {
  const Interval mine = strip(sum, number, ranks_.cp_rank);
  const std::int64_t row = mine.begin - own_rows(sum, ranks_.cp_rank).begin;
  inputs_.clear();
  for (const HeldNodes::Input& input : inputs) {
    if (input.held >= 0) {
      const View& slot = sum.slots[static_cast<std::size_t>(input.held)];
      inputs_.push_back({slot.slice_rows(row, row).data, slot.row_stride, input.merges});
      continue;
    }
    if (covers_) {
      inputs_.push_back(covers_->node(static_cast<std::size_t>(input.added), input.merges));
    } else if (finishes_) {
      const engine::OpenLeaf open = open_rows(sum, mine.begin);
      inputs_.push_back({open.data, open.row_stride, input.merges, true});
    } else {
      const auto nodes = static_cast<std::int64_t>(added_.size());
      const auto* const from =
          static_cast<const unsigned char*>(cover_) + checked_bytes(input.added, sum.cols, node_bytes_);
      inputs_.push_back({from, nodes * sum.cols, input.merges});
    }
  }
}

void Accumulation::add(Which which, const ConstView& left, const ConstView& right, engine::Block& block,
                       Queue queue) {
  half_added_ = true;
  const Sum& sum = sums_[which];
  const TokenPlaces& held = lists_[static_cast<std::size_t>(sends_covers() ? ranks_.cp_rank : 0)];
  for (std::int64_t number = 0; number < strips(sum); ++number) {
    const auto leave = [&](Interval rows, const engine::CoverView& cover) {
      if (held.empty()) return;
      block.d_weight({left.slice_cols(rows.begin, rows.end),
                      right,
                      tree_,
                      held,
                      {cover, {}},
                      open_rows(sum, rows.begin)},
                     queue);
    };
    bring_nodes(sum, number, leave, block, queue);
    const Interval mine = strip(sum, number, ranks_.cp_rank);
    if (mine.length() == 0) continue;
    const std::int64_t row = mine.begin - own_rows(sum, ranks_.cp_rank).begin;
    for (const HeldNodes::Step& step : nodes_.steps()) {
      list_inputs(sum, number, nodes_.inputs(step));
      const View& slot = sum.slots[static_cast<std::size_t>(step.slot)];
      block.finish({inputs_, {}, slot.slice_rows(row, row + mine.length())}, queue);
    }
  }
}

void Accumulation::commit() {
  half_added_ = false;
  nodes_.commit();
  holders_ = next_;
  taken_ = next_taken_;
}

void Accumulation::begin_finish() {
  require_whole();
  finishes_ = true;
  if (options_.tokens >= 0 && taken_ != options_.tokens) {
    refuse(fmt::format("{} tokens were added of the {} that were announced", taken_, options_.tokens));
  }
  added_.clear();
  for (std::size_t number = 0; number < holders_.size(); ++number) {
    const Holder& holder = holders_[number];
    if (holder.leaf.length() > 0)
      added_.push_back({{holder.leaf.begin, holder.at}, static_cast<int>(number), 0});
  }
  list_added(numerics::axis_tree(contract_, contract_.tokens, taken_));
  if (taken_ > 0 && !nodes_.is_whole(taken_)) {
    refuse(fmt::format("the tokens added are not all of 0 to {}: some are missing between them", taken_));
  }
}

void Accumulation::write(Which which, const View& out, engine::Block& block, Queue queue) {
  const Sum& sum = sums_[which];
  for (std::int64_t number = 0; number < strips(sum); ++number) {
    if (covers_ && !added_.empty()) {
      const auto close = [&](Interval rows, const engine::CoverView& cover) {
        if (cover.nodes == 0) return;
        const engine::OpenLeaf open = open_rows(sum, rows.begin);
        const engine::FinishNode node{open.data, open.row_stride, 0, true};
        const DType type = engine::node_dtype(contract_);
        block.finish({{&node, 1},
                      {},
                      {cover.data, type, rows.length(), sum.cols, cover.row_stride, 1, engine_.device()}},
                     queue);
      };
      bring_nodes(sum, number, close, block, queue);
    }
    const Interval mine = strip(sum, number, ranks_.cp_rank);
    View slice =
        ranks_.cp > 1 ? packed(slice_, mine.length(), sum.cols) : out.slice_rows(mine.begin, mine.end);
    slice.dtype = out.dtype;
    inputs_.clear();
    if (taken_ > 0) list_inputs(sum, number, nodes_.root_inputs());
    if (mine.length() > 0) block.finish({inputs_, {}, slice}, queue);
    if (ranks_.cp > 1) share(sum, number, slice, out, queue);
  }
}

// Every rank's rows of a strip to all of them.
void Accumulation::share(const Sum& sum, std::int64_t number, const View& slice, const View& out,
                         Queue queue) {
  for (int rank = 0; rank < ranks_.cp; ++rank)
    rows_of_[static_cast<std::size_t>(rank)] = strip(sum, number, rank).length();
  exchanges_.run(
      [this, slice](Queue on) {
        for (std::size_t rank = 0; rank < bytes_of_.size(); ++rank)
          bytes_of_[rank] = checked_bytes(rows_of_[rank], slice.cols, size_of(slice.dtype));
        gather_.run(slice.data, block_.data, bytes_of_, engine_.device().space, on);
      },
      queue);
  auto* from = static_cast<unsigned char*>(block_.data);
  for (int slot = 0; slot < ranks_.cp; ++slot) {
    const int rank = ranks_.levels.rank_at(slot);
    const Interval rows = strip(sum, number, rank);
    View arrived = packed(block_, rows.length(), sum.cols);
    arrived.data = from;
    arrived.dtype = out.dtype;
    if (!arrived.empty()) engine_.copy(out.slice_rows(rows.begin, rows.end), arrived, queue);
    from += bytes_of_[static_cast<std::size_t>(rank)];
  }
}

}  // namespace samebits::ffn
