// The bytes of every collective, written down apart from the code that moves them: a test holds one against
// the other.
#include "samebits/traffic.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/engine.hpp"
#include "ffn/chunks.hpp"
#include "ffn/gradient_sizes.hpp"
#include "layout/cuts.hpp"
#include "numerics/walk.hpp"

namespace samebits {
namespace {

using Bytes = std::vector<std::size_t>;

std::size_t bytes(std::int64_t a, std::int64_t b, std::size_t size) {
  return static_cast<std::size_t>(a * b) * size;
}

std::size_t sum(const Bytes& all) { return std::accumulate(all.begin(), all.end(), std::size_t{0}); }

Collective gather(std::string what, const Bytes& of_rank, int me, bool over_context) {
  const std::size_t mine = of_rank[static_cast<std::size_t>(me)];
  return {std::move(what),
          CollectiveKind::all_gather,
          static_cast<int>(of_rank.size()),
          over_context,
          1,
          mine * (of_rank.size() - 1),
          sum(of_rank) - mine};
}

Collective exchange(std::string what, const Bytes& sends, const Bytes& receives, int me, bool over_context) {
  const auto at = static_cast<std::size_t>(me);
  return {
      std::move(what),        CollectiveKind::all_to_all,  static_cast<int>(sends.size()), over_context, 1,
      sum(sends) - sends[at], sum(receives) - receives[at]};
}

// One rank's call.
class Counter {
 public:
  Counter(const PlanOptions& options, const TokenShards& shards, int rank, DType gradients)
      : o_(options),
        shards_(shards),
        gradients_(size_of(gradients)),
        tp_(options.layout.tp),
        cp_(options.layout.cp),
        t_(rank % tp_),
        c_(rank / tp_),
        node_bytes_(options.contract.node == Precision::f32 ? 4 : 2),
        hidden_(options.shape.hidden),
        held_(shards.count(c_)),
        chunked_(may_overlap(options) && !options.layout.sequence_parallel) {
    axis_ = numerics::axis_tree(options.contract, options.contract.intermediate, options.shape.intermediate);
    cuts_ = layout::leaf_cuts(axis_, tp_);
    rows_ = tp_ > 1 && (options.down == DownCut::rows || cuts_.empty());
    if (rows_) cuts_ = layout::even_cuts(options.shape.intermediate, tp_);
  }

  CallTraffic count() {
    CallTraffic traffic;
    auto* to = &traffic.forward;
    const auto add = [&](Collective collective) { to->push_back(std::move(collective)); };
    const bool slices = tp_ > 1 && o_.layout.sequence_parallel;
    if (slices) add(tokens_of("x", held_));
    if (tp_ > 1) {
      if (rows_) {
        add(gather("act", columns_of(held_, cuts_), t_, false));
        add(finished_columns("y"));
      } else {
        add_covers(add, "cover of y");
        add_finished_rows(add, "y");
      }
    }
    to = &traffic.backward;
    const GradientWay way = cp_ > 1 ? gradient_way() : GradientWay{};
    if (slices) {
      add(tokens_of("dy", held_));
      add(tokens_of("x", held_));
    }
    const auto add_operand = [&](const char* what, std::int64_t cols) {
      if (cp_ > 1 && way.gathers) add(operand_of(what, cols));
    };
    const auto add_lanes = [&] {
      add_operand("tokens of d_gate", intermediate_held());
      add_operand("tokens of d_up", intermediate_held());
    };
    add_operand("tokens of x", hidden_);
    add_operand("tokens of dy", hidden_);
    add_operand("tokens of act", intermediate_held());
    if (!rows_) add_lanes();
    if (tp_ > 1) {
      if (rows_) {
        add(gather("d_gate of tokens", columns_of(held_, cuts_), t_, false));
        add(gather("d_up of tokens", columns_of(held_, cuts_), t_, false));
        add_lanes();
        add(finished_columns("dx"));
      } else {
        add_covers(add, "cover of dx, gate lane");
        add_covers(add, "cover of dx, up lane");
      }
    }
    if (cp_ > 1) add_gradient(add, "down's gradient", hidden_, intermediate_held(), way);
    if (tp_ > 1 && !rows_) add_finished_rows(add, "dx");
    if (cp_ > 1) {
      add_gradient(add, "gate's gradient", intermediate_held(), hidden_, way);
      add_gradient(add, "up's gradient", intermediate_held(), hidden_, way);
    }
    return traffic;
  }

 private:
  // Where the plan has no transport yet, it is taken for one that allows it.
  static bool may_overlap(const PlanOptions& o) {
    const MemorySpace space = o.engine ? o.engine->device().space : MemorySpace::host;
    return o.overlap == Overlap::automatic && (!o.transport || o.transport->concurrent(space));
  }

  std::int64_t slice(std::int64_t rows, int rank) const { return even_slice(rows, tp_, rank).length(); }

  // Slices of rows, from every tensor rank to all.
  Collective tokens_of(std::string what, std::int64_t rows) const {
    Bytes of_rank;
    for (int r = 0; r < tp_; ++r) of_rank.push_back(bytes(slice(rows, r), hidden_, 2));
    return gather(std::move(what), of_rank, t_, false);
  }

  static Bytes columns_of(std::int64_t rows, const std::vector<std::int64_t>& cuts) {
    Bytes of_rank;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r)
      of_rank.push_back(bytes(rows, cuts[r + 1] - cuts[r], 2));
    return of_rank;
  }

  // Columns of y or dx: all rows to everybody, or each rank its slice of them.
  Collective finished_columns(std::string what) const {
    const std::vector<std::int64_t> cuts = layout::even_cuts(hidden_, tp_);
    if (!o_.layout.sequence_parallel) return gather(std::move(what), columns_of(held_, cuts), t_, false);
    const auto width = [&](int r) {
      return cuts[static_cast<std::size_t>(r) + 1] - cuts[static_cast<std::size_t>(r)];
    };
    Bytes sends, receives;
    for (int r = 0; r < tp_; ++r) {
      sends.push_back(bytes(slice(held_, r), width(t_), 2));
      receives.push_back(bytes(slice(held_, t_), width(r), 2));
    }
    return exchange(std::move(what), sends, receives, t_, false);
  }

  std::int64_t nodes_of(int r) const {
    const auto at = static_cast<std::size_t>(r);
    return numerics::count_cover_nodes(axis_, cuts_[at], cuts_[at + 1]);
  }
  bool one_shot(std::int64_t rows) const {
    if (o_.cover_exchange != CoverExchange::automatic) return o_.cover_exchange == CoverExchange::one_shot;
    std::int64_t most = 0;
    for (int r = 0; r < tp_; ++r) most = std::max(most, nodes_of(r));
    return !o_.layout.sequence_parallel && bytes(rows * most, hidden_, node_bytes_) <= o_.one_shot_bytes;
  }
  Collective cover_of(std::string what, std::int64_t rows) const {
    Bytes sends, receives;
    for (int r = 0; r < tp_; ++r) {
      sends.push_back(bytes(slice(rows, r) * nodes_of(t_), hidden_, node_bytes_));
      receives.push_back(
          bytes((one_shot(rows) ? rows : slice(rows, t_)) * nodes_of(r), hidden_, node_bytes_));
    }
    return one_shot(rows) ? gather(std::move(what), receives, t_, false)
                          : exchange(std::move(what), sends, receives, t_, false);
  }

  // Rows of each chunk that covers travel in.
  template <class Each>
  void for_each_chunk(const Each& each) const {
    const std::int64_t step = chunked_ ? ffn::chunk_rows(o_.chunks, held_) : held_;
    std::int64_t begin = 0;
    do {
      const std::int64_t end = std::min(begin + step, held_);
      each(end - begin);
      begin = end;
    } while (begin < held_);
  }
  template <class Add>
  void add_covers(const Add& add, const std::string& what) const {
    Collective all;
    for_each_chunk([&](std::int64_t rows) {
      const Collective one = cover_of(what, rows);
      if (!all.what.empty() && all.kind != one.kind) add(std::exchange(all, {}));
      join(all, one);
    });
    add(all);
  }
  template <class Add>
  void add_finished_rows(const Add& add, const std::string& what) const {
    if (o_.layout.sequence_parallel) return;
    Collective all;
    for_each_chunk([&](std::int64_t rows) {
      if (!one_shot(rows)) join(all, tokens_of(what, rows));
    });
    if (!all.what.empty()) add(all);
  }

  std::int64_t intermediate_held() const {
    const auto at = static_cast<std::size_t>(t_);
    return cuts_.empty() ? o_.shape.intermediate : cuts_[at + 1] - cuts_[at];
  }

  // How weight gradients cross context ranks.
  struct GradientWay {
    ffn::GradientSizes sizes;
    bool gathers = true;
    std::vector<std::int64_t> nodes;  // of each rank's cover
  };
  GradientWay gradient_way() const {
    const auto engine = o_.engine ? o_.engine : make_cpu_engine();
    GradientWay way{{hidden_, intermediate_held(), cp_, node_bytes_, engine->most_finish_nodes()},
                    true,
                    std::vector<std::int64_t>(static_cast<std::size_t>(cp_))};
    numerics::AxisTree tree = numerics::axis_tree(o_.contract, o_.contract.tokens, shards_.tokens);
    way.gathers = ffn::gathers_tokens(way.sizes, o_.gradient_reduction, tree, shards_);
    for (int r = 0; r < cp_ && !way.gathers; ++r) {
      for (const Interval& interval : shards_.of_rank[static_cast<std::size_t>(r)])
        way.nodes[static_cast<std::size_t>(r)] +=
            numerics::count_cover_nodes(tree, interval.begin, interval.end);
    }
    return way;
  }

  // Tokens of an operand of the weight gradients, from every context rank to all.
  Collective operand_of(std::string what, std::int64_t cols) const {
    Bytes of_rank;
    for (int r = 0; r < cp_; ++r) of_rank.push_back(bytes(shards_.count(r), cols, 2));
    return gather(std::move(what), of_rank, c_, true);
  }

  // A gradient of rows x cols, block by block: covers to the rank that finishes a slice, slices to all.
  template <class Add>
  void add_gradient(const Add& add, const std::string& what, std::int64_t rows, std::int64_t cols,
                    const GradientWay& way) const {
    const std::vector<std::int64_t>& nodes = way.nodes;
    if (rows == 0 || cols == 0) return;
    const std::int64_t all = std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
    const std::int64_t step =
        ffn::rows_at_once(way.sizes, cols, way.gathers, {all, *std::max_element(nodes.begin(), nodes.end())});
    const std::int64_t own = nodes[static_cast<std::size_t>(c_)];
    Collective covers, slices;
    for (std::int64_t row = 0; row < rows; row += step) {
      const std::int64_t count = std::min(rows, row + step) - row;
      Bytes sends, receives, finished;
      for (int r = 0; r < cp_; ++r) {
        sends.push_back(bytes(even_slice(count, cp_, r).length() * own, cols, node_bytes_));
        receives.push_back(bytes(even_slice(count, cp_, c_).length() * nodes[static_cast<std::size_t>(r)],
                                 cols, node_bytes_));
        finished.push_back(bytes(even_slice(count, cp_, r).length(), cols, gradients_));
      }
      join(covers, exchange("covers of " + what, sends, receives, c_, true));
      join(slices, gather("slices of " + what, finished, c_, true));
    }
    if (!way.gathers) add(covers);
    add(slices);
  }
  static void join(Collective& to, const Collective& more) {
    if (to.what.empty()) {
      to = more;
      return;
    }
    ++to.times;
    to.sent += more.sent;
    to.received += more.received;
  }

  const PlanOptions& o_;
  const TokenShards& shards_;
  std::size_t gradients_;
  int tp_, cp_, t_, c_;
  std::size_t node_bytes_;
  std::int64_t hidden_, held_;  // tokens of the context rank
  bool chunked_;
  numerics::AxisTree axis_{};
  std::vector<std::int64_t> cuts_;
  bool rows_ = false;
};

}  // namespace

const char* name_of(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather ? "all-gather" : "all-to-all";
}

CallTraffic traffic_of(const PlanOptions& options, const TokenShards& shards, int rank, DType gradients) {
  return Counter(options, shards, rank, gradients).count();
}

}  // namespace samebits
