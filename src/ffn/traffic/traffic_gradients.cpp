#include "ffn/traffic/traffic_gradients.hpp"

#include <algorithm>
#include <limits>

#include "engine/engine.hpp"
#include "numerics/walk.hpp"

namespace samebits::ffn {

GradientTraffic::GradientTraffic(const PlanOptions& options, const TokenShards& shards, int cp_rank,
                                 std::int64_t held, std::size_t gradient_bytes)
    : shards_(shards),
      cp_(options.layout.cp),
      me_(cp_rank),
      per_node_(context_ranks_per_node(options.layout, options.ranks_per_node)),
      gradient_bytes_(gradient_bytes) {
  sizes_ = {options.shape.hidden,
            held,
            cp_,
            per_node_,
            size_of(engine::node_dtype(options.contract)),
            options.engine ? options.engine->most_finish_nodes() : std::numeric_limits<int>::max(),
            options.gradient_bytes};
  const numerics::AxisTree tree =
      numerics::axis_tree(options.contract, options.contract.tokens, shards.tokens);
  gathers_ = gathers_tokens(sizes_, options.gradient_reduction, tree, shards.of_rank);
  if (!gathers_) count_covers(tree);
}

// Nodes by context rank, and by machine.
void GradientTraffic::count_covers(const numerics::AxisTree& tree) {
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
  for (int machine = 0; machine < machines(); ++machine) {
    std::vector<Interval> together;
    for (int r = machine * per_node_; r < (machine + 1) * per_node_; ++r) {
      const auto& held = shards_.of_rank[static_cast<std::size_t>(r)];
      std::int64_t nodes = 0;
      for (const Interval& interval : held) nodes += count({interval});
      of_rank_.push_back(nodes);
      together.insert(together.end(), held.begin(), held.end());
    }
    of_machine_.push_back(count(together));
  }
}

CoverCounts GradientTraffic::counts() const {
  if (gathers_) return {};
  const auto most = [](const auto& all) { return *std::max_element(all.begin(), all.end()); };
  const auto total = [](const auto& all) { return std::accumulate(all.begin(), all.end(), std::int64_t{0}); };
  if (!two_levels()) return {most(of_rank_), 0, 0, total(of_rank_)};
  std::int64_t inside = 0;
  for (int machine = 0; machine < machines(); ++machine) {
    const auto first = of_rank_.begin() + machine * per_node_;
    inside = std::max(inside, std::accumulate(first, first + per_node_, std::int64_t{0}));
  }
  return {most(of_rank_), inside, most(of_machine_), total(of_machine_)};
}

// A gather over context ranks: one collective, or one between machines and one inside them.
std::vector<Collective> GradientTraffic::context_gather(const std::string& what, const Bytes& of_rank) const {
  if (!two_levels()) return {gather_of(what, of_rank, me_, true)};
  const int place = me_ % per_node_;
  Bytes across, inside(static_cast<std::size_t>(per_node_));
  for (int r = 0; r < cp_; ++r) {
    inside[static_cast<std::size_t>(r % per_node_)] += of_rank[static_cast<std::size_t>(r)];
    if (r % per_node_ == place) across.push_back(of_rank[static_cast<std::size_t>(r)]);
  }
  Collective between = gather_of(what + ", between machines", across, me_ / per_node_, true);
  between.between_machines = true;
  return {between, gather_of(what + ", inside", inside, place, true)};
}

// Rows of a block that go to a context rank: slices stand machine behind machine within a place.
std::int64_t GradientTraffic::slice_of(std::int64_t rows, int r) const {
  const int slot = two_levels() ? r % per_node_ * machines() + r / per_node_ : r;
  return even_slice(rows, cp_, slot).length();
}
std::vector<Collective> GradientTraffic::cover_exchange(const std::string& what, std::int64_t rows,
                                                        std::int64_t cols) const {
  const auto cover = [&](std::int64_t count, std::int64_t nodes) {
    return matrix_bytes(count * nodes, cols, sizes_.node_bytes);
  };
  const auto of_rank = [&](int r) { return of_rank_[static_cast<std::size_t>(r)]; };
  Bytes sends, receives;
  if (!two_levels()) {
    for (int r = 0; r < cp_; ++r) {
      sends.push_back(cover(slice_of(rows, r), of_rank(me_)));
      receives.push_back(cover(slice_of(rows, me_), of_rank(r)));
    }
    return {exchange_of(what, sends, receives, me_, true)};
  }
  const int machine = me_ / per_node_, place = me_ % per_node_;
  const auto rows_of_place = [&](int at) {
    std::int64_t all = 0;
    for (int m = 0; m < machines(); ++m) all += slice_of(rows, m * per_node_ + at);
    return all;
  };
  for (int at = 0; at < per_node_; ++at) {
    sends.push_back(cover(rows_of_place(at), of_rank(me_)));
    receives.push_back(cover(rows_of_place(place), of_rank(machine * per_node_ + at)));
  }
  const Collective inside = exchange_of(what + ", inside", sends, receives, place, true);
  sends.clear(), receives.clear();
  for (int m = 0; m < machines(); ++m) {
    sends.push_back(
        cover(slice_of(rows, m * per_node_ + place), of_machine_[static_cast<std::size_t>(machine)]));
    receives.push_back(cover(slice_of(rows, me_), of_machine_[static_cast<std::size_t>(m)]));
  }
  Collective between = exchange_of(what + ", between machines", sends, receives, machine, true);
  between.between_machines = true;
  return {inside, between};
}

std::vector<Collective> GradientTraffic::operand(const std::string& what, std::int64_t cols) const {
  if (!gathers_) return {};
  Bytes of_rank;
  for (int r = 0; r < cp_; ++r) of_rank.push_back(matrix_bytes(shards_.count(r), cols, 2));
  return context_gather(what, of_rank);
}

std::vector<Collective> GradientTraffic::gradient(const std::string& what, std::int64_t rows,
                                                  std::int64_t cols) const {
  std::vector<Collective> all;
  if (rows == 0 || cols == 0) return all;
  const std::int64_t step = rows_at_once(sizes_, cols, gathers_, counts());
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(rows, row + step) - row;
    std::vector<Collective> block;
    if (!gathers_) block = cover_exchange("covers of " + what, count, cols);
    Bytes finished;
    for (int r = 0; r < cp_; ++r) finished.push_back(matrix_bytes(slice_of(count, r), cols, gradient_bytes_));
    for (Collective& part : context_gather("slices of " + what, finished)) block.push_back(std::move(part));
    all.resize(block.size());
    for (std::size_t i = 0; i < block.size(); ++i) join(all[i], block[i]);
  }
  return all;
}

}  // namespace samebits::ffn
