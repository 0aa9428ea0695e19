// Weight gradients over context ranks: d = left^T right over all tokens in their global order. Either the
// tokens are gathered and each rank contracts a slice of the result's rows, or ranks exchange covers of the
// gradient and each finishes a slice; then slices are gathered. The same bits; chosen by bytes.
#pragma once

#include <array>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/exchange_lane.hpp"
#include "ffn/gradient_sizes.hpp"
#include "ffn/ranks.hpp"
#include "ffn/workspace.hpp"

namespace samebits::ffn {

class TokenReduction {
 public:
  TokenReduction(const PlanOptions& options, Ranks& ranks, engine::Engine& engine, Workspace& workspace,
                 ExchangeLane& exchanges, std::int64_t intermediate_held);

  // Settles how this call's tokens are reduced. `tree` is that of all tokens.
  void begin(const numerics::AxisTree& tree, const TokenShards& shards);

  // Whether operands travel; those that do are packed.
  bool gathers() const { return ranks_.cp > 1 && gathers_; }

  // The operand `slot`, [tokens of this rank, cols]: sets it on its way where tokens are gathered. `mine` may
  // itself be on its way, until `arrival`.
  enum Slot { kX, kDy, kGate, kUp, kAct, kSlots };
  ExchangeLane::Ticket start(Slot slot, const ConstView& mine, ExchangeLane::Ticket arrival, Queue queue);

  // It as the contraction needs it: all tokens in global order when gathering, as it was given otherwise.
  ConstView operand(Slot slot, Queue queue);

  // out = left^T right; operands as operand() gave them.
  void reduce(const ConstView& left, const ConstView& right, const View& out, engine::Block& block,
              Queue queue);

 private:
  struct Node {
    std::int64_t begin, end;
    int rank;
    std::int64_t index;  // in its rank's cover
  };
  std::span<const Interval> held_by(int rank) const {
    return shards_->of_rank[static_cast<std::size_t>(rank)];
  }
  void list_nodes();
  void gather(const ConstView& mine, const View& all, Queue queue);
  void reduce_block(const ConstView& left, const ConstView& right, Interval rows, const View& out,
                    engine::Block& block, Queue queue);

  const PlanOptions& options_;
  Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  GradientSizes sizes_;
  std::size_t node_bytes_;
  numerics::AxisTree tree_{};
  const TokenShards* shards_ = nullptr;
  bool gathers_ = true;

  View arrived_{};              // tokens as they arrive, rank behind rank
  std::vector<View> gathered_;  // tokens in global order, a slot each
  struct Operand {
    ConstView view;
    ExchangeLane::Ticket arrival;
  };
  std::array<Operand, kSlots> operands_{};  // of this call
  View slice_{}, block_{};  // a slice of a block of gradient rows; the whole block. Room for f32
  void* send_ = nullptr;    // covers
  void* receive_ = nullptr;
  std::vector<Node> nodes_;             // of all covers, in global order
  std::vector<int> merges_;             // after each of them
  std::vector<std::int64_t> nodes_of_;  // of each rank
  std::vector<engine::FinishNode> finish_;
  std::vector<std::size_t> send_bytes_, receive_bytes_;  // of the exchange that runs
};

}  // namespace samebits::ffn
