// Weight gradients over context ranks: d = left^T right over all tokens in their global order. Either the
// tokens are gathered and each rank contracts a slice of the result's rows, or ranks exchange covers of the
// gradient and each finishes a slice; then slices are gathered. The same bits; chosen by bytes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/context/context_gather.hpp"
#include "ffn/context/cover_transfer.hpp"
#include "ffn/context/gradient_sizes.hpp"
#include "ffn/rank/exchange_lane.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/rank/workspace.hpp"

namespace samebits::ffn {

class TokenReduction {
 public:
  TokenReduction(const PlanOptions& options, Ranks& ranks, engine::Engine& engine, Workspace& workspace,
                 ExchangeLane& exchanges, std::int64_t intermediate_held);

  // Settles how this call's tokens are reduced. `tree` is that of all tokens, `of_rank` says where each
  // context rank's stand; it is read until the call ends.
  void begin(const numerics::AxisTree& tree, std::span<const TokenPlaces> of_rank);

  // Instead of begin, for an accumulation: operands are gathered, or each rank keeps its own.
  void gather(std::span<const TokenPlaces> of_rank);
  void keep(std::span<const TokenPlaces> of_rank);

  // Whether operands travel; those that do are packed.
  bool gathers() const { return gathers_; }

  // The operand `slot`, [tokens of this rank, cols]: sets it on its way where tokens are gathered. `mine` may
  // itself be on its way, until `arrival`. Rows behind those that `of_rank` places are left out.
  enum Slot { kX, kDy, kGate, kUp, kAct, kSlots };
  ExchangeLane::Ticket start(Slot slot, const ConstView& mine, ExchangeLane::Ticket arrival, Queue queue);

  // It as the contraction needs it: all tokens in global order when gathering, as it was given otherwise.
  ConstView operand(Slot slot, Queue queue);

  // out = left^T right; operands as operand() gave them.
  void reduce(const ConstView& left, const ConstView& right, const View& out, engine::Block& block,
              Queue queue);

 private:
  std::span<const Interval> held_by(int rank) const { return held_[static_cast<std::size_t>(rank)]; }
  void list_nodes();
  void gather_operand(const ConstView& mine, const View& all, Queue queue);
  void reduce_block(const ConstView& left, const ConstView& right, Interval rows, const View& out,
                    engine::Block& block, Queue queue);

  const PlanOptions& options_;
  Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  GradientSizes sizes_;
  numerics::AxisTree tree_{};
  std::span<const TokenPlaces> held_;
  std::int64_t tokens_ = 0;     // of all of them
  std::vector<TokenRun> runs_;  // in the order of the sequence
  bool gathers_ = true;

  View arrived_{};              // tokens as they arrive, rank behind rank
  std::vector<View> gathered_;  // tokens in global order, a slot each
  struct Operand {
    ConstView view;
    ExchangeLane::Ticket arrival;
  };
  std::array<Operand, kSlots> operands_{};  // of this call
  View slice_{}, block_{};  // a slice of a block of gradient rows; the whole block. Room for f32
  ContextGather gather_;
  std::optional<CoverTransfer> covers_;
  std::vector<RankNode> nodes_;  // of all covers, in the order of the sequence
  std::vector<int> merges_;      // after each of those that arrive
  std::vector<engine::FinishNode> finish_;
  std::vector<std::int64_t> rows_of_;  // of a block, by context rank
  std::vector<std::size_t> bytes_of_;  // by context rank, of the gather that runs
};

}  // namespace samebits::ffn
