// Weight gradients summed over several backward calls: the bits are those of one call over all their tokens.
//
//   GradientAccumulator sum(plan, {.max_tokens = 65536});
//   for (each micro-batch) { plan.forward(...); plan.backward({.x = x, .dy = dy, ..., .accumulate = &sum}); }
//   sum.finish({.d_gate = ..., .d_up = ..., .d_down = ...});
//
// What is held between calls is a stack of the contract's nodes (docs/numerics.md section 2), and the
// accumulators of the one leaf that the last call left open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "samebits/export.hpp"
#include "samebits/plan.hpp"

namespace samebits {

struct AccumulatorOptions {
  std::int64_t max_tokens = 0;  // of all calls together

  // How many tokens there will be, exactly; -1: not known. Token trees of `max` and `halve` depend on it (but
  // for halve:0, which is one leaf), those of `block` do not.
  std::int64_t tokens = -1;

  // Context ranks either gather each call's tokens, which then may be cut anywhere between ranks, or exchange
  // covers of each call, whose tokens are cut between leaves. `automatic`: as the plan was told, and gathered
  // if it may choose. Either way a rank keeps the sums of its slice of the gradients' rows.
  GradientReduction reduction = GradientReduction::automatic;

  // Stretches of the sequence that grow side by side: 1 where each call goes on behind the one before, the
  // number of data-parallel ranks where each fills a stretch of its own (`BackwardArgs::places`).
  int stretches = 1;
};

struct Gradients {
  View d_gate;  // [I_r, H], bf16 or f32, all three alike
  View d_up;    // [I_r, H]
  View d_down;  // [H, I_r]
};

class GradientAccumulator {
 public:
  // Collective. Of a plan made with backward, which must outlive it. Throws Error(invalid_argument) where the
  // contract's token tree needs the number of tokens and it is not given, Error(disagreement) where ranks
  // were given different options.
  SAMEBITS_API GradientAccumulator(Plan& plan, const AccumulatorOptions& options);
  SAMEBITS_API ~GradientAccumulator();
  SAMEBITS_API GradientAccumulator(GradientAccumulator&&) noexcept;
  SAMEBITS_API GradientAccumulator& operator=(GradientAccumulator&&) noexcept;

  // Collective. Writes the sums and is empty again. Throws Error(invalid_argument) where tokens are missing.
  SAMEBITS_API void finish(const Gradients& out, Queue queue = {});

  // Forgets what was added; after a backward that failed while it added, nothing else is possible.
  SAMEBITS_API void clear();

  SAMEBITS_API std::int64_t tokens() const;  // added so far, on all ranks
  SAMEBITS_API std::size_t bytes() const;    // of memory, all taken at construction

 private:
  friend class Plan;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace samebits
