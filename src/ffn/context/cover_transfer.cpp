#include "ffn/context/cover_transfer.hpp"

#include <algorithm>
#include <numeric>

namespace samebits::ffn {
namespace {

std::size_t sum(const std::vector<std::size_t>& bytes, std::size_t first, std::size_t count) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), std::size_t{0});
}

}  // namespace

CoverTransfer::CoverTransfer(const Contract& contract, const Ranks& ranks, engine::Engine& engine,
                             Workspace& workspace, ExchangeLane& exchanges, std::size_t bytes)
    : ranks_(ranks),
      engine_(engine),
      exchanges_(exchanges),
      node_type_(engine::node_dtype(contract)),
      node_bytes_(size_of(node_type_)),
      send_(workspace.take(bytes)),
      receive_(workspace.take(bytes)),
      nodes_of_(static_cast<std::size_t>(ranks.cp)),
      send_bytes_(static_cast<std::size_t>(ranks.cp)),
      receive_bytes_(static_cast<std::size_t>(ranks.cp)),
      inside_bytes_(static_cast<std::size_t>(ranks.cp)) {
  if (ranks.levels.two()) {
    inside_ = workspace.take(bytes);
    joined_ = workspace.take(bytes);
  }
  // An even or zigzag split.
  constexpr std::size_t kUsual = 512;
  arrives_.reserve(kUsual);
  arrived_.reserve(kUsual);
  inputs_.reserve(kUsual);
  finish_.reserve(kUsual);
  joiner_.reserve(kUsual);
  nodes_from_.reserve(static_cast<std::size_t>(ranks.cp));
}

void CoverTransfer::settle(const numerics::AxisTree& tree, std::span<const RankNode> nodes) {
  std::fill(nodes_of_.begin(), nodes_of_.end(), 0);
  for (const RankNode& node : nodes) ++nodes_of_[static_cast<std::size_t>(node.rank)];
  counts_ = {*std::max_element(nodes_of_.begin(), nodes_of_.end()), 0, 0, 0};
  arrives_.clear();
  arrived_.clear();
  if (ranks_.levels.two()) {
    settle_two_levels(tree, nodes);
  } else {
    nodes_from_ = nodes_of_;
    for (const RankNode& node : nodes) {
      arrives_.push_back(node.at);
      arrived_.push_back({node.at, node.rank, node.index});
    }
  }
  counts_.all = static_cast<std::int64_t>(arrives_.size());
}

void CoverTransfer::settle_two_levels(const numerics::AxisTree& tree, std::span<const RankNode> nodes) {
  const Levels& levels = ranks_.levels;
  nodes_from_.clear();
  const int mine = levels.node_of(ranks_.cp_rank);
  // This rank's own machine last: its joins are kept.
  for (int turn = 1; turn <= levels.nodes; ++turn) {
    const int machine = (mine + turn) % levels.nodes;
    joiner_.clear();
    inputs_.clear();
    for (const RankNode& node : nodes) {
      if (levels.node_of(node.rank) != machine) continue;
      joiner_.push(tree, node.at);
      inputs_.push_back(node);
    }
    const auto made = static_cast<std::int64_t>(joiner_.joined().size());
    counts_.inside = std::max(counts_.inside, static_cast<std::int64_t>(inputs_.size()));
    counts_.joined = std::max(counts_.joined, made);
    for (std::int64_t i = 0; i < made; ++i)
      arrived_.push_back({joiner_.joined()[static_cast<std::size_t>(i)].node, machine, i});
  }
  std::sort(arrived_.begin(), arrived_.end(),
            [](const Arrived& a, const Arrived& b) { return a.at.begin < b.at.begin; });
  nodes_from_.assign(static_cast<std::size_t>(levels.nodes), 0);
  for (const Arrived& node : arrived_) {
    arrives_.push_back(node.at);
    ++nodes_from_[static_cast<std::size_t>(node.from)];
  }
}

engine::CoverView CoverTransfer::leave_for(int rank, std::span<const std::int64_t> rows_of,
                                           std::int64_t cols) const {
  const std::int64_t nodes = nodes_of(ranks_.cp_rank);
  std::int64_t before = 0;
  for (int slot = 0; slot < ranks_.levels.slot_of(rank); ++slot)
    before += rows_of[static_cast<std::size_t>(ranks_.levels.rank_at(slot))];
  auto* const to = static_cast<unsigned char*>(send_) + checked_bytes(before, nodes * cols, node_bytes_);
  return {to, nodes, nodes * cols, cols};
}

void CoverTransfer::move(std::span<const std::int64_t> rows_of, std::int64_t cols, engine::Block& block,
                         Queue queue) {
  cols_ = cols;
  const Levels& levels = ranks_.levels;
  if (levels.two()) {
    exchanges_.run([this, rows_of, cols](Queue on) { move_inside(rows_of, cols, on); }, queue);
    join(rows_of_place(rows_of, levels.place_of(ranks_.cp_rank)), cols, block, queue);
  }
  exchanges_.run([this, rows_of, cols](Queue on) { move_on(rows_of, cols, on); }, queue);
}

// Of all ranks that have a place on their machines.
std::int64_t CoverTransfer::rows_of_place(std::span<const std::int64_t> rows_of, int place) const {
  std::int64_t rows = 0;
  for (int machine = 0; machine < ranks_.levels.nodes; ++machine) {
    const int rank = machine * ranks_.levels.per_node + place;
    rows += rows_of[static_cast<std::size_t>(rank)];
  }
  return rows;
}

// To each neighbour the rows of all ranks that have its place, machine by machine.
void CoverTransfer::move_inside(std::span<const std::int64_t> rows_of, std::int64_t cols, Queue queue) {
  const Levels& levels = ranks_.levels;
  const int first = levels.node_of(ranks_.cp_rank) * levels.per_node, mine = levels.place_of(ranks_.cp_rank);
  const auto neighbours = static_cast<std::size_t>(levels.per_node);
  for (int place = 0; place < levels.per_node; ++place) {
    const auto at = static_cast<std::size_t>(place);
    send_bytes_[at] =
        checked_bytes(rows_of_place(rows_of, place), nodes_of(ranks_.cp_rank) * cols, node_bytes_);
    inside_bytes_[at] =
        checked_bytes(rows_of_place(rows_of, mine), nodes_of(first + place) * cols, node_bytes_);
  }
  levels.inside->all_to_all(send_, std::span(send_bytes_).first(neighbours), inside_,
                            std::span(inside_bytes_).first(neighbours), engine_.device().space, queue);
}

// To every rank, or to that of this place on every machine, its rows.
void CoverTransfer::move_on(std::span<const std::int64_t> rows_of, std::int64_t cols, Queue queue) {
  const Levels& levels = ranks_.levels;
  const bool two = levels.two();
  const int peers = two ? levels.nodes : ranks_.cp;
  const int me = two ? levels.node_of(ranks_.cp_rank) : ranks_.cp_rank;
  const std::int64_t mine = rows_of[static_cast<std::size_t>(ranks_.cp_rank)];
  for (int peer = 0; peer < peers; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const int rank = two ? peer * levels.per_node + levels.place_of(ranks_.cp_rank) : peer;
    send_bytes_[at] = checked_bytes(rows_of[static_cast<std::size_t>(rank)],
                                    nodes_from_[static_cast<std::size_t>(me)] * cols, node_bytes_);
    receive_bytes_[at] = checked_bytes(mine, nodes_from_[at] * cols, node_bytes_);
  }
  const auto count = static_cast<std::size_t>(peers);
  (two ? levels.across : ranks_.context)
      ->all_to_all(two ? joined_ : send_, std::span(send_bytes_).first(count), receive_,
                   std::span(receive_bytes_).first(count), engine_.device().space, queue);
}

// The machine's cover of `rows` rows, from what its ranks sent.
void CoverTransfer::join(std::int64_t rows, std::int64_t cols, engine::Block& block, Queue queue) {
  if (rows == 0) return;
  const auto made = static_cast<std::int64_t>(joiner_.joined().size());
  for (std::int64_t i = 0; i < made; ++i) {
    const NodeJoiner::Joined& node = joiner_.joined()[static_cast<std::size_t>(i)];
    finish_.clear();
    for (int input = node.first; input < node.first + node.count; ++input) {
      const RankNode& from = inputs_[static_cast<std::size_t>(input)];
      const auto peer = static_cast<std::size_t>(ranks_.levels.place_of(from.rank));
      const auto* const data = static_cast<const unsigned char*>(inside_) + sum(inside_bytes_, 0, peer) +
                               static_cast<std::size_t>(from.index * cols) * node_bytes_;
      finish_.push_back({data, nodes_of(from.rank) * cols, joiner_.merges_after(input)});
    }
    auto* const to = static_cast<unsigned char*>(joined_) + static_cast<std::size_t>(i * cols) * node_bytes_;
    block.finish({finish_, {}, {to, node_type_, rows, cols, made * cols, 1, engine_.device()}}, queue);
  }
}

engine::FinishNode CoverTransfer::node(std::size_t index, int merges) const {
  const Arrived& node = arrived_[index];
  const auto* const data = static_cast<const unsigned char*>(receive_) +
                           sum(receive_bytes_, 0, static_cast<std::size_t>(node.from)) +
                           static_cast<std::size_t>(node.index * cols_) * node_bytes_;
  return {data, nodes_from_[static_cast<std::size_t>(node.from)] * cols_, merges};
}

}  // namespace samebits::ffn
