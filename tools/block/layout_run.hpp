// One layout of the block, all its ranks; compared, where wanted, element by element with exact slices of TP1
// tensors. The ranks are threads of this process, or the first processes of the world.
#pragma once

#include <cstdint>

#include "block/layout_refused.hpp"
#include "block/tensors.hpp"
#include "compute/compute_flags.hpp"
#include "samebits/layout.hpp"
#include "samebits/view.hpp"

namespace samebits::tools {

// What every layout computes. Whole tensors, bf16.
struct BlockCase {
  Shape shape;
  std::int64_t tokens = 0;
  ConstView x, dy;           // [tokens, H]
  ConstView gate, up, down;  // [I, H], [I, H], [H, I]
  DType gradients = DType::bf16;
};

struct LayoutOutcome {
  PerTensor<std::int64_t> differing{};  // from `exact`, over all ranks: a replica counts like an owner
  PerTensor<std::int64_t> compared{};
  double seconds = 0;  // of all ranks' plans, calls and comparisons
};

struct LayoutRun {
  Layout layout{};
  bool control = false;                 // the deliberately wrong tree (PlanOptions::control)
  const BlockTensors* exact = nullptr;  // null: nothing is compared
  bool inference = true;                // an inference plan's forward: `output`
  bool training = true;                 // a training plan's forward and backward: the other tensors
};

// Throws LayoutRefused where this process, or the world, has too few ranks for the layout.
void check_ranks(const Compute& compute, const Layout& layout);

// The plans' calls, inference first. `out` receives the assembled tensors: token tensors from the ranks that
// own their rows, gradients from context rank 0. Threads write those straight into it, as strided views; what
// other ranks hold is compared and freed, so that no layout needs more than one whole set beyond its
// replicas.
//
// With processes: on rank 0, while every other rank calls join_layout. A single rank is never shared.
LayoutOutcome run_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                         BlockTensors& out);

// What the other processes do meanwhile: their rank of the layout, where it has one for them. Refusals are
// thrown here as they are on rank 0.
void join_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run);

// Ends the verb for a layout that was asked for by name. Where its ranks are processes, every rank of the
// world has caught the refusal.
[[noreturn]] void refuse_by_name(const Layout& layout, const LayoutRefused& refusal);

}  // namespace samebits::tools
