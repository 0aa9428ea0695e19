// Covers of a gradient's rows from the context ranks that hold tokens to the rank that owns the rows. In one
// level every rank sends every other its nodes; in two the ranks of a machine first join theirs to nodes that
// are fewer, and those travel between machines.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/context/gradient_sizes.hpp"
#include "ffn/context/node_joiner.hpp"
#include "ffn/rank/exchange_lane.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/rank/workspace.hpp"

namespace samebits::ffn {

class CoverTransfer {
 public:
  // Every buffer holds `bytes` bytes of nodes.
  CoverTransfer(const Contract& contract, const Ranks& ranks, engine::Engine& engine, Workspace& workspace,
                ExchangeLane& exchanges, std::size_t bytes);

  // The nodes of all ranks, in the order of the sequence. Allocates nothing once it has seen as many.
  void settle(const numerics::AxisTree& tree, std::span<const RankNode> nodes);

  // What arrives, in the order of the sequence.
  std::span<const Interval> arrives() const { return arrives_; }
  const CoverCounts& counts() const { return counts_; }
  std::int64_t nodes_of(int rank) const { return nodes_of_[static_cast<std::size_t>(rank)]; }

  // Some rows: rows_of[r] of them go to context rank r. This rank leaves its nodes of each rank's rows there,
  // then moves them. Slot behind slot, the rows lie together.
  engine::CoverView leave_for(int rank, std::span<const std::int64_t> rows_of, std::int64_t cols) const;
  void move(std::span<const std::int64_t> rows_of, std::int64_t cols, engine::Block& block, Queue queue);

  // Node `index` of what arrived, for this rank's rows.
  engine::FinishNode node(std::size_t index, int merges) const;

 private:
  struct Arrived {
    Interval at;
    int from = 0;            // the rank, or in two levels the machine, that sent it
    std::int64_t index = 0;  // among its nodes
  };
  void settle_two_levels(const numerics::AxisTree& tree, std::span<const RankNode> nodes);
  std::int64_t rows_of_place(std::span<const std::int64_t> rows_of, int place) const;
  void move_inside(std::span<const std::int64_t> rows_of, std::int64_t cols, Queue queue);
  void move_on(std::span<const std::int64_t> rows_of, std::int64_t cols, Queue queue);
  void join(std::int64_t rows, std::int64_t cols, engine::Block& block, Queue queue);

  const Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  DType node_type_;
  std::size_t node_bytes_;

  void *send_ = nullptr, *receive_ = nullptr;
  void *inside_ = nullptr,
       *joined_ = nullptr;  // two levels: what the machine's ranks sent; the nodes made of it

  std::vector<std::int64_t> nodes_of_;  // of each rank
  std::vector<Interval> arrives_;
  std::vector<Arrived> arrived_;
  std::vector<std::int64_t> nodes_from_;  // of each sender of the last level
  CoverCounts counts_;
  NodeJoiner joiner_;             // of this rank's machine: its ranks' nodes to its cover
  std::vector<RankNode> inputs_;  // of the joiner
  std::vector<engine::FinishNode> finish_;
  std::vector<std::size_t> send_bytes_, receive_bytes_, inside_bytes_;  // of the exchange that runs
  std::int64_t cols_ = 0;                                               // of the rows that were moved last
};

}  // namespace samebits::ffn
