// The bytes of every collective, written down apart from the code that moves them: a test holds one against
// the other.
#include "samebits/traffic.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/engine.hpp"
#include "ffn/rank/weight_cuts.hpp"
#include "ffn/tensor/chunks.hpp"
#include "ffn/traffic/traffic_gradients.hpp"
#include "ffn/traffic/traffic_parts.hpp"
#include "numerics/walk.hpp"

namespace samebits {
namespace {

using ffn::Bytes;
using ffn::exchange_of;
using ffn::gather_of;
using ffn::matrix_bytes;

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
        node_bytes_(size_of(engine::node_dtype(options.contract))),
        hidden_(options.shape.hidden),
        held_(shards.count(c_)),
        chunked_(may_overlap(options) && !options.layout.sequence_parallel) {
    axis_ = numerics::axis_tree(options.contract, options.contract.intermediate, options.shape.intermediate);
    ffn::WeightCuts cuts = ffn::choose_weight_cuts(options, axis_);
    rows_ = cuts.by_rows();
    cuts_ = std::move(cuts.intermediate);
    hidden_cuts_ = std::move(cuts.hidden);
  }

  CallTraffic count() {
    CallTraffic traffic;
    auto* to = &traffic.forward;
    const auto add = [&](Collective collective) { to->push_back(std::move(collective)); };
    const bool slices = tp_ > 1 && o_.layout.sequence_parallel;
    if (slices) add(tokens_of("x", held_));
    if (tp_ > 1) {
      if (rows_) {
        add(gather_of("act", columns_of(held_, cuts_), t_, false));
        add(finished_columns("y"));
      } else {
        add_covers(add, "cover of y");
        add_finished_rows(add, "y");
      }
    }
    to = &traffic.backward;
    std::optional<ffn::GradientTraffic> over_context;
    if (cp_ > 1) over_context.emplace(o_, shards_, c_, intermediate_held(), gradients_);
    if (slices) {
      add(tokens_of("dy", held_));
      add(tokens_of("x", held_));
    }
    const auto add_operand = [&](const char* what, std::int64_t cols) {
      if (cp_ == 1) return;
      for (Collective& part : over_context->operand(what, cols)) add(std::move(part));
    };
    const auto add_gradient = [&](const char* what, std::int64_t rows, std::int64_t cols) {
      if (cp_ == 1) return;
      for (Collective& part : over_context->gradient(what, rows, cols)) add(std::move(part));
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
        add(gather_of("d_gate of tokens", columns_of(held_, cuts_), t_, false));
        add(gather_of("d_up of tokens", columns_of(held_, cuts_), t_, false));
        add_lanes();
        add(finished_columns("dx"));
      } else {
        add_covers(add, "cover of dx, gate lane");
        add_covers(add, "cover of dx, up lane");
      }
    }
    add_gradient("down's gradient", hidden_, intermediate_held());
    if (tp_ > 1 && !rows_) add_finished_rows(add, "dx");
    add_gradient("gate's gradient", intermediate_held(), hidden_);
    add_gradient("up's gradient", intermediate_held(), hidden_);
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
    for (int r = 0; r < tp_; ++r) of_rank.push_back(matrix_bytes(slice(rows, r), hidden_, 2));
    return gather_of(std::move(what), of_rank, t_, false);
  }

  static Bytes columns_of(std::int64_t rows, const std::vector<std::int64_t>& cuts) {
    Bytes of_rank;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r)
      of_rank.push_back(matrix_bytes(rows, cuts[r + 1] - cuts[r], 2));
    return of_rank;
  }

  // Columns of y or dx: all rows to everybody, or each rank its slice of them.
  Collective finished_columns(std::string what) const {
    if (!o_.layout.sequence_parallel)
      return gather_of(std::move(what), columns_of(held_, hidden_cuts_), t_, false);
    const auto width = [&](int r) {
      return hidden_cuts_[static_cast<std::size_t>(r) + 1] - hidden_cuts_[static_cast<std::size_t>(r)];
    };
    Bytes sends, receives;
    for (int r = 0; r < tp_; ++r) {
      sends.push_back(matrix_bytes(slice(held_, r), width(t_), 2));
      receives.push_back(matrix_bytes(slice(held_, t_), width(r), 2));
    }
    return exchange_of(std::move(what), sends, receives, t_, false);
  }

  std::int64_t nodes_of(int r) const {
    const auto at = static_cast<std::size_t>(r);
    return numerics::count_cover_nodes(axis_, cuts_[at], cuts_[at + 1]);
  }
  bool one_shot(std::int64_t rows) const {
    if (o_.cover_exchange != CoverExchange::automatic) return o_.cover_exchange == CoverExchange::one_shot;
    std::int64_t most = 0;
    for (int r = 0; r < tp_; ++r) most = std::max(most, nodes_of(r));
    return !o_.layout.sequence_parallel &&
           matrix_bytes(rows * most, hidden_, node_bytes_) <= o_.one_shot_bytes;
  }
  Collective cover_of(std::string what, std::int64_t rows) const {
    Bytes sends, receives;
    for (int r = 0; r < tp_; ++r) {
      sends.push_back(matrix_bytes(slice(rows, r) * nodes_of(t_), hidden_, node_bytes_));
      receives.push_back(
          matrix_bytes((one_shot(rows) ? rows : slice(rows, t_)) * nodes_of(r), hidden_, node_bytes_));
    }
    return one_shot(rows) ? gather_of(std::move(what), receives, t_, false)
                          : exchange_of(std::move(what), sends, receives, t_, false);
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
      ffn::join(all, one);
    });
    add(all);
  }
  template <class Add>
  void add_finished_rows(const Add& add, const std::string& what) const {
    if (o_.layout.sequence_parallel) return;
    Collective all;
    for_each_chunk([&](std::int64_t rows) {
      if (!one_shot(rows)) ffn::join(all, tokens_of(what, rows));
    });
    if (!all.what.empty()) add(all);
  }

  std::int64_t intermediate_held() const {
    const auto at = static_cast<std::size_t>(t_);
    return cuts_[at + 1] - cuts_[at];
  }

  const PlanOptions& o_;
  const TokenShards& shards_;
  std::size_t gradients_;
  int tp_, cp_, t_, c_;
  std::size_t node_bytes_;
  std::int64_t hidden_, held_;  // tokens of the context rank
  bool chunked_;
  numerics::AxisTree axis_{};
  std::vector<std::int64_t> cuts_, hidden_cuts_;
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
