// Weight gradients that grow call by call. Every rank keeps the sums of its slice of each gradient's rows, as
// nodes of the token tree; where tokens are not gathered it also keeps, for all rows, the accumulators of the
// leaf that its own tokens left open.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ffn/context/held_nodes.hpp"
#include "ffn/context/token_places.hpp"
#include "ffn/context/token_reduction.hpp"
#include "ffn/rank/workspace.hpp"
#include "numerics/walk.hpp"
#include "samebits/accumulator.hpp"

namespace samebits::ffn {

class Accumulation {
 public:
  Accumulation(const AccumulatorOptions& options, const PlanOptions& plan, Ranks& ranks,
               engine::Engine& engine, ExchangeLane& exchanges, std::int64_t intermediate_held);

  std::int64_t tokens() const { return taken_; }
  std::size_t bytes() const { return workspace_.bytes(); }
  void clear();

  // Settles what this call's tokens add, and how its operands travel. `places`: where each context rank's
  // tokens stand in the whole sequence. Nothing is changed when it throws.
  void begin(std::span<const TokenPlaces> places, TokenReduction& reduction);
  // left^T right, operands as reduction.operand() gave them; all three, then commit().
  enum Which { kGate, kUp, kDown, kGradients };
  void add(Which which, const ConstView& left, const ConstView& right, engine::Block& block, Queue queue);
  void commit();

  // As add, for the end of the sequence: the open leaf ends, and what is held becomes the gradient.
  void begin_finish();
  void write(Which which, const View& out, engine::Block& block, Queue queue);

 private:
  // Who holds tokens: every context rank its own, or all of them together where tokens are gathered.
  struct Holder {
    numerics::TreeNode leaf{};  // left open; empty: none
    std::int64_t at = 0;        // how far it came
  };
  // A gradient [rows, cols] and what is held of it.
  struct Sum {
    std::int64_t rows = 0, cols = 0;
    std::vector<View> slots;  // [this rank's rows, cols], node type
    View open{};              // f32, [this rank's rows or all rows, cols]
  };

  bool sends_covers() const { return ranks_.cp > 1 && !gathers_; }
  Interval own_rows(const Sum& sum, int rank) const { return ranks_.slice(sum.rows, rank); }
  std::int64_t most_own_rows(const Sum& sum) const { return (sum.rows + ranks_.cp - 1) / ranks_.cp; }
  std::int64_t strip_rows(const Sum& sum) const;
  std::int64_t strips(const Sum& sum) const;
  Interval strip(const Sum& sum, std::int64_t number, int rank) const;
  void require_whole() const;
  void settle_holder(int number);
  void list_added(const numerics::AxisTree& tree);
  std::int64_t nodes_a_row() const;
  engine::OpenLeaf open_rows(const Sum& sum, std::int64_t row) const;
  template <class Leave>
  void bring_nodes(const Sum& sum, std::int64_t number, const Leave& leave, engine::Block& block,
                   Queue queue);
  void list_inputs(const Sum& sum, std::int64_t number, std::span<const HeldNodes::Input> inputs);
  void share(const Sum& sum, std::int64_t number, const View& slice, const View& out, Queue queue);

  AccumulatorOptions options_;
  Contract contract_;
  Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  Workspace workspace_;
  bool gathers_ = true;
  std::size_t node_bytes_, budget_;
  numerics::AxisTree tree_{};
  std::int64_t taken_ = 0;
  bool half_added_ = false;  // a call began to add and has not come to its end
  int slots_;                // nodes that memory is kept for
  HeldNodes nodes_;
  std::vector<Holder> holders_;
  std::array<Sum, kGradients> sums_;
  void* cover_ = nullptr;                // of a strip, where nothing is exchanged: [row][node][col]
  std::optional<CoverTransfer> covers_;  // where ranks exchange them
  ContextGather gather_;
  View slice_{}, block_{};  // finished rows of a strip: this rank's, and all ranks'. Room for f32

  // Of the call in hand.
  bool finishes_ = false;
  std::vector<TokenRun> runs_;
  std::vector<TokenPlaces> lists_;  // of each holder
  std::vector<Holder> next_;
  std::int64_t next_taken_ = 0;
  std::vector<RankNode> added_;        // by whom they are held, in the order of the sequence
  std::vector<Interval> added_nodes_;  // likewise; where they are exchanged, as they arrive
  std::vector<std::int64_t> rows_of_;  // of a strip, by context rank
  std::vector<std::size_t> bytes_of_;  // of the gather that runs
  std::vector<engine::FinishNode> inputs_;
};

}  // namespace samebits::ffn
