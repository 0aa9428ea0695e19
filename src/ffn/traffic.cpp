// The bytes of every collective, written down apart from the code that moves them: a test holds one against
// the other.
#include "samebits/traffic.hpp"

#include <algorithm>
#include <numeric>

#include "engine/engine.hpp"
#include "ffn/gradient_sizes.hpp"
#include "ffn/ranks.hpp"
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
        per_node_(ffn::context_ranks_per_node(options.layout, options.ranks_per_node)),
        node_bytes_(options.contract.node == Precision::f32 ? 4 : 2),
        hidden_(options.shape.hidden),
        held_(shards.count(c_)) {
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
    if (slices) add(tokens_of("x"));
    if (tp_ > 1) {
      if (rows_) {
        add(gather("act", columns_of(held_, cuts_), t_, false));
        add(finished_columns("y"));
      } else {
        add(cover_of("cover of y"));
        if (!one_shot() && !slices) add(tokens_of("y"));
      }
    }
    to = &traffic.backward;
    if (slices) add(tokens_of("dy"));
    if (tp_ > 1) {
      if (rows_) {
        add(gather("d_gate of tokens", columns_of(held_, cuts_), t_, false));
        add(gather("d_up of tokens", columns_of(held_, cuts_), t_, false));
        add(finished_columns("dx"));
      } else {
        add(cover_of("cover of dx, gate lane"));
        add(cover_of("cover of dx, up lane"));
        if (!one_shot() && !slices) add(tokens_of("dx"));
      }
    }
    if (slices) add(tokens_of("x"));
    if (cp_ > 1) count_gradients(add);
    return traffic;
  }

 private:
  std::int64_t slice(int rank) const { return even_slice(held_, tp_, rank).length(); }

  // Slices of the context rank's tokens, from every tensor rank to all.
  Collective tokens_of(std::string what) const {
    Bytes of_rank;
    for (int r = 0; r < tp_; ++r) of_rank.push_back(bytes(slice(r), hidden_, 2));
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
      sends.push_back(bytes(slice(r), width(t_), 2));
      receives.push_back(bytes(slice(t_), width(r), 2));
    }
    return exchange(std::move(what), sends, receives, t_, false);
  }

  std::int64_t nodes_of(int r) const {
    const auto at = static_cast<std::size_t>(r);
    return numerics::count_cover_nodes(axis_, cuts_[at], cuts_[at + 1]);
  }
  bool one_shot() const {
    if (o_.cover_exchange != CoverExchange::automatic) return o_.cover_exchange == CoverExchange::one_shot;
    std::int64_t most = 0;
    for (int r = 0; r < tp_; ++r) most = std::max(most, nodes_of(r));
    return !o_.layout.sequence_parallel && bytes(held_ * most, hidden_, node_bytes_) <= o_.one_shot_bytes;
  }
  Collective cover_of(std::string what) const {
    Bytes sends, receives;
    for (int r = 0; r < tp_; ++r) {
      sends.push_back(bytes(slice(r) * nodes_of(t_), hidden_, node_bytes_));
      receives.push_back(bytes((one_shot() ? held_ : slice(t_)) * nodes_of(r), hidden_, node_bytes_));
    }
    return one_shot() ? gather(std::move(what), receives, t_, false)
                      : exchange(std::move(what), sends, receives, t_, false);
  }

  template <class Add>
  void count_gradients(const Add& add) const {
    const auto at = static_cast<std::size_t>(t_);
    const std::int64_t mine = cuts_.empty() ? o_.shape.intermediate : cuts_[at + 1] - cuts_[at];
    const auto engine = o_.engine ? o_.engine : make_cpu_engine();
    const ffn::GradientSizes sizes{hidden_, mine, cp_, per_node_, node_bytes_, engine->most_finish_nodes()};
    numerics::AxisTree tree = numerics::axis_tree(o_.contract, o_.contract.tokens, shards_.tokens);
    const bool gathers = ffn::gathers_tokens(sizes, o_.gradient_reduction, tree, shards_.of_rank);
    Covers covers;
    if (gathers) {
      const auto operand = [&](const char* what, std::int64_t cols) {
        Bytes of_rank;
        for (int r = 0; r < cp_; ++r) of_rank.push_back(bytes(shards_.count(r), cols, 2));
        for (Collective& part : context_gather(what, of_rank)) add(std::move(part));
      };
      operand("tokens of x", hidden_);
      operand("tokens of d_gate", mine);
      operand("tokens of d_up", mine);
      operand("tokens of dy", hidden_);
      operand("tokens of act", mine);
    } else {
      covers = count_covers(tree);
    }
    gradient(add, "gate's gradient", mine, hidden_, sizes, gathers, covers);
    gradient(add, "up's gradient", mine, hidden_, sizes, gathers, covers);
    gradient(add, "down's gradient", hidden_, mine, sizes, gathers, covers);
  }

  int machines() const { return cp_ / per_node_; }
  bool two_levels() const { return per_node_ > 1; }

  // Nodes by context rank, and by machine.
  struct Covers {
    std::vector<std::int64_t> of_rank, of_machine;
  };
  Covers count_covers(const numerics::AxisTree& tree) const {
    const auto count = [&](std::vector<Interval> held) {
      std::sort(held.begin(), held.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
      std::int64_t nodes = 0;
      for (std::size_t i = 0; i < held.size();) {
        Interval run = held[i];
        for (++i; i < held.size() && held[i].begin == run.end; ++i) run.end = held[i].end;
        nodes += numerics::count_cover_nodes(tree, run.begin, run.end);
      }
      return nodes;
    };
    Covers covers;
    for (int machine = 0; machine < machines(); ++machine) {
      std::vector<Interval> together;
      for (int r = machine * per_node_; r < (machine + 1) * per_node_; ++r) {
        const auto& held = shards_.of_rank[static_cast<std::size_t>(r)];
        std::int64_t nodes = 0;
        for (const Interval& interval : held) nodes += count({interval});
        covers.of_rank.push_back(nodes);
        together.insert(together.end(), held.begin(), held.end());
      }
      covers.of_machine.push_back(count(together));
    }
    return covers;
  }
  ffn::CoverCounts counts_of(const Covers& covers) const {
    if (covers.of_rank.empty()) return {};
    const auto most = [](const std::vector<std::int64_t>& all) {
      return *std::max_element(all.begin(), all.end());
    };
    const auto total = [](const auto& all) {
      return std::accumulate(all.begin(), all.end(), std::int64_t{0});
    };
    if (!two_levels()) return {most(covers.of_rank), 0, 0, total(covers.of_rank)};
    std::int64_t inside = 0;
    for (int machine = 0; machine < machines(); ++machine) {
      const auto first = covers.of_rank.begin() + machine * per_node_;
      inside = std::max(inside, std::accumulate(first, first + per_node_, std::int64_t{0}));
    }
    return {most(covers.of_rank), inside, most(covers.of_machine), total(covers.of_machine)};
  }

  // A gather over context ranks: one collective, or one between machines and one inside them.
  std::vector<Collective> context_gather(const std::string& what, const Bytes& of_rank) const {
    if (!two_levels()) return {gather(what, of_rank, c_, true)};
    const int place = c_ % per_node_;
    Bytes across, inside(static_cast<std::size_t>(per_node_));
    for (int r = 0; r < cp_; ++r) {
      inside[static_cast<std::size_t>(r % per_node_)] += of_rank[static_cast<std::size_t>(r)];
      if (r % per_node_ == place) across.push_back(of_rank[static_cast<std::size_t>(r)]);
    }
    Collective between = gather(what + ", between machines", across, c_ / per_node_, true);
    between.between_machines = true;
    return {between, gather(what + ", inside", inside, place, true)};
  }

  // Rows of a block that go to a context rank: slices stand machine behind machine within a place.
  std::int64_t slice_of(std::int64_t rows, int r) const {
    const int slot = two_levels() ? r % per_node_ * machines() + r / per_node_ : r;
    return even_slice(rows, cp_, slot).length();
  }
  std::vector<Collective> cover_exchange(const std::string& what, std::int64_t rows, std::int64_t cols,
                                         const Covers& covers) const {
    const auto cover = [&](std::int64_t count, std::int64_t nodes) {
      return bytes(count * nodes, cols, node_bytes_);
    };
    const auto of_rank = [&](int r) { return covers.of_rank[static_cast<std::size_t>(r)]; };
    Bytes sends, receives;
    if (!two_levels()) {
      for (int r = 0; r < cp_; ++r) {
        sends.push_back(cover(slice_of(rows, r), of_rank(c_)));
        receives.push_back(cover(slice_of(rows, c_), of_rank(r)));
      }
      return {exchange(what, sends, receives, c_, true)};
    }
    const int machine = c_ / per_node_, place = c_ % per_node_;
    const auto rows_of_place = [&](int at) {
      std::int64_t all = 0;
      for (int m = 0; m < machines(); ++m) all += slice_of(rows, m * per_node_ + at);
      return all;
    };
    for (int at = 0; at < per_node_; ++at) {
      sends.push_back(cover(rows_of_place(at), of_rank(c_)));
      receives.push_back(cover(rows_of_place(place), of_rank(machine * per_node_ + at)));
    }
    const Collective inside = exchange(what + ", inside", sends, receives, place, true);
    sends.clear(), receives.clear();
    for (int m = 0; m < machines(); ++m) {
      sends.push_back(
          cover(slice_of(rows, m * per_node_ + place), covers.of_machine[static_cast<std::size_t>(machine)]));
      receives.push_back(cover(slice_of(rows, c_), covers.of_machine[static_cast<std::size_t>(m)]));
    }
    Collective between = exchange(what + ", between machines", sends, receives, machine, true);
    between.between_machines = true;
    return {inside, between};
  }

  // A gradient of rows x cols, block by block: covers to the rank that finishes a slice, slices to all.
  template <class Add>
  void gradient(const Add& add, const std::string& what, std::int64_t rows, std::int64_t cols,
                const ffn::GradientSizes& sizes, bool gathers, const Covers& covers) const {
    if (rows == 0 || cols == 0) return;
    const std::int64_t step = ffn::rows_at_once(sizes, cols, gathers, counts_of(covers));
    std::vector<Collective> all;
    for (std::int64_t row = 0; row < rows; row += step) {
      const std::int64_t count = std::min(rows, row + step) - row;
      std::vector<Collective> block;
      if (!gathers) block = cover_exchange("covers of " + what, count, cols, covers);
      Bytes finished;
      for (int r = 0; r < cp_; ++r) finished.push_back(bytes(slice_of(count, r), cols, gradients_));
      for (Collective& part : context_gather("slices of " + what, finished)) block.push_back(std::move(part));
      all.resize(block.size());
      for (std::size_t i = 0; i < block.size(); ++i) join(all[i], block[i]);
    }
    for (Collective& part : all) add(std::move(part));
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
  int per_node_;  // context ranks on a machine; 1: one level
  std::size_t node_bytes_;
  std::int64_t hidden_, held_;  // tokens of the context rank
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
