// Weight gradients over context ranks: d = left^T right over all tokens in their global order. Either the
// tokens are gathered and each rank contracts a slice of the result's rows, or ranks exchange covers of the
// gradient and each finishes a slice; then slices are gathered. The same bits; chosen by bytes.
#pragma once

#include <optional>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/context_gather.hpp"
#include "ffn/cover_transfer.hpp"
#include "ffn/gradient_sizes.hpp"
#include "ffn/ranks.hpp"
#include "ffn/workspace.hpp"

namespace samebits::ffn {

class TokenReduction {
 public:
  TokenReduction(const PlanOptions& options, Ranks& ranks, engine::Engine& engine, Workspace& workspace,
                 std::int64_t intermediate_held);

  // Settles how this call's tokens are reduced. `tree` is that of all tokens, `of_rank` says where each
  // context rank's stand; it is read until the call ends.
  void begin(const numerics::AxisTree& tree, std::span<const TokenPlaces> of_rank);

  // Instead of begin, for an accumulation: operands are gathered, or each rank keeps its own.
  void gather(std::span<const TokenPlaces> of_rank);
  void keep(std::span<const TokenPlaces> of_rank);

  // An operand [tokens of this rank, cols] as the contraction needs it: all tokens in global order when
  // gathering (kept in slot `slot`), as it is otherwise. Rows behind those that `of_rank` places are left
  // out.
  enum Slot { kX, kDy, kGate, kUp, kAct, kSlots };
  ConstView operand(Slot slot, const ConstView& mine, Queue queue);

  // out = left^T right; operands as operand() gave them.
  void reduce(const ConstView& left, const ConstView& right, const View& out, engine::Block& block,
              Queue queue);

 private:
  std::span<const Interval> held_by(int rank) const { return held_[static_cast<std::size_t>(rank)]; }
  void list_nodes();
  void reduce_block(const ConstView& left, const ConstView& right, Interval rows, const View& out,
                    engine::Block& block, Queue queue);

  const PlanOptions& options_;
  Ranks& ranks_;
  engine::Engine& engine_;
  GradientSizes sizes_;
  numerics::AxisTree tree_{};
  std::span<const TokenPlaces> held_;
  std::int64_t tokens_ = 0;     // of all of them
  std::vector<TokenRun> runs_;  // in the order of the sequence
  bool gathers_ = true;

  View arrived_{};              // tokens as they arrive, rank behind rank
  std::vector<View> gathered_;  // tokens in global order, a slot each
  View slice_{}, block_{};      // a slice of a block of gradient rows; the whole block. Room for f32
  ContextGather gather_;
  std::optional<CoverTransfer> covers_;
  std::vector<RankNode> nodes_;  // of all covers, in the order of the sequence
  std::vector<int> merges_;      // after each of those that arrive
  std::vector<engine::FinishNode> finish_;
  std::vector<std::int64_t> rows_of_;  // of a block, by context rank
  std::vector<std::size_t> bytes_of_;
};

}  // namespace samebits::ffn
