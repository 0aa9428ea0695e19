#include "ffn/cover_transfer.hpp"

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
                             Workspace& workspace, std::size_t bytes)
    : ranks_(ranks),
      engine_(engine),
      node_type_(contract.node),
      node_bytes_(contract.node == Precision::f32 ? 4 : 2),
      send_(workspace.take(bytes)),
      receive_(workspace.take(bytes)),
      nodes_of_(static_cast<std::size_t>(ranks.cp)),
      send_bytes_(static_cast<std::size_t>(ranks.cp)),
      receive_bytes_(static_cast<std::size_t>(ranks.cp)),
      receive_from_(static_cast<std::size_t>(ranks.cp)) {
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
  const MemorySpace space = engine_.device().space;
  const Levels& levels = ranks_.levels;
  cols_ = cols;
  const auto row_bytes = [&](std::int64_t nodes) {
    return static_cast<std::size_t>(nodes * cols) * node_bytes_;
  };
  const auto rows = [&](int rank) {
    return static_cast<std::size_t>(rows_of[static_cast<std::size_t>(rank)]);
  };
  const std::size_t mine = rows(ranks_.cp_rank);
  if (!levels.two()) {
    for (int rank = 0; rank < ranks_.cp; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      send_bytes_[at] = rows(rank) * row_bytes(nodes_of(ranks_.cp_rank));
      receive_bytes_[at] = mine * row_bytes(nodes_of(rank));
    }
    ranks_.context->all_to_all(send_, send_bytes_, receive_, receive_bytes_, space, queue);
    return;
  }
  // Inside the machine: to each neighbour the rows of all ranks that have its place, machine by machine.
  const auto inside = static_cast<std::size_t>(levels.per_node),
             across = static_cast<std::size_t>(levels.nodes);
  const int machine = levels.node_of(ranks_.cp_rank), place = levels.place_of(ranks_.cp_rank);
  const auto rows_of_place = [&](int at) {
    std::size_t all = 0;
    for (int node = 0; node < levels.nodes; ++node) all += rows(node * levels.per_node + at);
    return all;
  };
  for (int peer = 0; peer < levels.per_node; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    send_bytes_[at] = rows_of_place(peer) * row_bytes(nodes_of(ranks_.cp_rank));
    receive_from_[at] = rows_of_place(place) * row_bytes(nodes_of(machine * levels.per_node + peer));
  }
  levels.inside->all_to_all(send_, std::span(send_bytes_).first(inside), inside_,
                            std::span(receive_from_).first(inside), space, queue);
  join(static_cast<std::int64_t>(rows_of_place(place)), cols, block, queue);
  // Between machines: to each its rank's rows.
  for (int node = 0; node < levels.nodes; ++node) {
    const auto at = static_cast<std::size_t>(node);
    send_bytes_[at] =
        rows(node * levels.per_node + place) * row_bytes(nodes_from_[static_cast<std::size_t>(machine)]);
    receive_bytes_[at] = mine * row_bytes(nodes_from_[at]);
  }
  levels.across->all_to_all(joined_, std::span(send_bytes_).first(across), receive_,
                            std::span(receive_bytes_).first(across), space, queue);
}

// The machine's cover of `rows` rows, from what its ranks sent.
void CoverTransfer::join(std::int64_t rows, std::int64_t cols, engine::Block& block, Queue queue) {
  if (rows == 0) return;
  const auto made = static_cast<std::int64_t>(joiner_.joined().size());
  const DType type = node_type_ == Precision::f32 ? DType::f32 : DType::bf16;
  for (std::int64_t i = 0; i < made; ++i) {
    const NodeJoiner::Joined& node = joiner_.joined()[static_cast<std::size_t>(i)];
    finish_.clear();
    for (int input = node.first; input < node.first + node.count; ++input) {
      const RankNode& from = inputs_[static_cast<std::size_t>(input)];
      const auto peer = static_cast<std::size_t>(ranks_.levels.place_of(from.rank));
      const auto* const data = static_cast<const unsigned char*>(inside_) + sum(receive_from_, 0, peer) +
                               static_cast<std::size_t>(from.index * cols) * node_bytes_;
      finish_.push_back({data, nodes_of(from.rank) * cols, joiner_.merges_after(input)});
    }
    auto* const to = static_cast<unsigned char*>(joined_) + static_cast<std::size_t>(i * cols) * node_bytes_;
    block.finish({finish_, {}, {to, type, rows, cols, made * cols, 1, engine_.device()}}, queue);
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
