// The operator: y = down(swiglu(gate(x), up(x))) and its gradients, sharded, the same bits on every layout.
//
//   Plan plan({.contract = parse_contract("sm90-v1"), .shape = {4096, 12288}, .max_tokens = 512});
//   plan.forward({.x = x, .y = y, .weights = weights});
//   plan.backward({.x = x, .dy = dy, .weights = weights, .dx = dx, .d_gate = ..., .d_up = ..., .d_down =
//   ...});
//
// Operands are bf16, sizes 64-bit, views used where they lie. After construction forward and backward
// allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "samebits/contract.hpp"
#include "samebits/engine.hpp"
#include "samebits/export.hpp"
#include "samebits/layout.hpp"
#include "samebits/transport.hpp"
#include "samebits/view.hpp"

namespace samebits {

// How the down projection is cut: by columns of I (ranks exchange covers of y) or by rows of H (ranks gather
// the activation and each finishes its columns of y). `automatic`: columns where the TP degree cuts between
// leaves.
enum class DownCut { automatic, columns, rows };

// Whether a rank holds its weights cut one way or both; backward by rows needs both.
enum class WeightCut { automatic, once, both };

// How weight gradients cross context ranks, and how covers of y and dx cross tensor ranks. `automatic`
// chooses by bytes.
enum class GradientReduction { automatic, gather_tokens, exchange_covers };
enum class CoverExchange { automatic, one_shot, slice_owner };

// Whether exchanges run under computation. `automatic`: where the transports of all ranks allow it
// (Transport::concurrent). The same bits and bytes; with `off` every exchange stands between two stages.
enum class Overlap { automatic, off };

// Where exchanges overlap and down is cut by columns, a call of many tokens goes in chunks of rows: the
// covers of one travel while the next one's are computed.
struct ChunkRule {
  std::int64_t most = 4;          // chunks
  std::int64_t least_rows = 512;  // of each
  std::int64_t multiple = 128;    // of rows, so that engines' tiles stay whole
};

// The shard of the weights that one rank holds, in [out, in]. Intervals are the plan's (`Plan::shard`).
struct Weights {
  ConstView gate;            // [I_r, H]
  ConstView up;              // [I_r, H]
  ConstView down{};          // [H, I_r]; not read by a forward-only plan that cuts down by rows
  ConstView gate_columns{};  // [I, H_r]; by rows with backward
  ConstView up_columns{};    // [I, H_r]; by rows with backward
  ConstView down_rows{};     // [H_r, I]; by rows
};

// What a forward leaves for its backward: [tokens of the context rank, I_r] each. Empty views mean the plan's
// own (PlanOptions::own_saved).
struct Saved {
  View gate;
  View up;
  View act;
};

struct PlanOptions {
  Contract contract = parse_contract("bf16-tree-v1");
  Shape shape{};
  std::int64_t max_tokens = 0;       // of the whole sequence
  std::int64_t max_rank_tokens = 0;  // of one context rank; 0: what an even or zigzag split gives it
  Layout layout{};
  std::shared_ptr<engine::Engine> engine{};  // null: a CPU engine
  std::shared_ptr<Transport> transport{};    // null: one rank
  bool backward = true;                      // false: an inference plan, with less memory
  bool own_saved = true;  // room of its own for what a forward leaves; false: calls bring it (`saved`)
  DownCut down = DownCut::automatic;
  WeightCut weights = WeightCut::automatic;
  GradientReduction gradient_reduction = GradientReduction::automatic;
  CoverExchange cover_exchange = CoverExchange::automatic;
  std::size_t one_shot_bytes = 1 << 20;  // `automatic`: covers up to this size a rank travel in one shot

  // Memory of each buffer for covers of gradients between context ranks, and a quarter of it of finished
  // rows'. More moves more rows at once.
  std::size_t gradient_bytes = 64 << 20;

  // Ranks on a machine, which are neighbours; 0: not said. Where each machine has equally many context ranks
  // of a group, what crosses context ranks goes in two levels, inside machines and between them: the same
  // bits, fewer bytes between.
  int ranks_per_node = 0;

  Overlap overlap = Overlap::automatic;
  ChunkRule chunks{};
  bool control =
      false;  // moves the first split of the I and token axes: deliberately wrong, to show a check's power

  // Every call compares what ranks hold copies of, by digests: the token shards of all, x and dy of tensor
  // ranks, the weights of context ranks. Copies that differ end in Error(disagreement) on every rank, not in
  // other bits. Reads all of them and waits for the queue: for finding faults, not under a graph's capture.
  bool check_replicas = false;
};

struct ForwardArgs {
  ConstView x;  // [local tokens, H]: the rank's tokens in global order, or its slice of them under sequence
                // parallelism
  View y{};     // as x; empty: not wanted, the call computes what backward reads and no more
  Weights weights;
  const TokenShards* shards = nullptr;  // null: `tokens` split evenly
  std::int64_t tokens = -1;             // of the whole sequence; -1: x.rows when one rank holds them all
  Saved saved{};
  Queue queue{};
};

class GradientAccumulator;  // samebits/accumulator.hpp

struct BackwardArgs {
  ConstView x;
  ConstView dy;
  Weights weights;
  View dx{};      // empty: not wanted
  View d_gate{};  // [I_r, H], bf16 or f32; the three gradients are wanted together or not at all
  View d_up{};    // [I_r, H]
  View d_down{};  // [H, I_r], whichever way the forward cuts down
  const TokenShards* shards = nullptr;
  std::int64_t tokens = -1;
  Saved saved{};
  Queue queue{};

  // How many of the tokens, from the first on, count for weight gradients; what follows is padding. -1: all.
  std::int64_t counted = -1;

  // Adds to these sums instead of writing d_gate, d_up and d_down, which stay empty. `places`: where the
  // counted tokens of each context rank stand in the sequence that is summed, ascending; null: behind those
  // of the calls before, in the order of this call.
  GradientAccumulator* accumulate = nullptr;
  const std::vector<std::vector<Interval>>* places = nullptr;
};

// What a rank holds. Without rows, hidden is the whole axis.
struct RankShard {
  int tp_rank = 0;
  int cp_rank = 0;
  Interval intermediate;  // rows of gate and up, columns of down
  Interval hidden;        // by rows: columns of gate and up, rows of down
};

class Plan {
 public:
  // Collective: every rank of the layout builds its plan.
  SAMEBITS_API explicit Plan(const PlanOptions& options);
  SAMEBITS_API ~Plan();
  SAMEBITS_API Plan(Plan&&) noexcept;
  SAMEBITS_API Plan& operator=(Plan&&) noexcept;

  SAMEBITS_API void forward(const ForwardArgs& args);
  SAMEBITS_API void backward(const BackwardArgs& args);

  SAMEBITS_API const RankShard& shard() const;
  SAMEBITS_API DownCut down() const;  // columns or rows, as chosen
  SAMEBITS_API bool holds_both_cuts() const;
  SAMEBITS_API std::size_t workspace_bytes() const;  // of the operator and of its engine

  // That calls of this plan have waited for exchanges of host memory so far: their whole time where none
  // overlaps.
  SAMEBITS_API double exposed_seconds() const;

  // Views of this rank's shard into whole weights, wherever those lie.
  SAMEBITS_API Weights slice(const ConstView& gate, const ConstView& up, const ConstView& down) const;

 private:
  friend class GradientAccumulator;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace samebits
