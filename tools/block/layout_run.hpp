// One layout of the block, all its ranks; compared, where wanted, element by element with exact slices of TP1
// tensors.
#pragma once

#include <cstdint>

#include "block/tensors.hpp"
#include "samebits/error.hpp"
#include "samebits/layout.hpp"
#include "samebits/view.hpp"
#include "shared/compute_flags.hpp"

namespace samebits::tools {

// What every layout computes. Whole tensors, bf16.
struct BlockCase {
  Shape shape;
  std::int64_t tokens = 0;
  ConstView x, dy;           // [tokens, H]
  ConstView gate, up, down;  // [I, H], [I, H], [H, I]
  DType gradients = DType::bf16;
};

// A layout that this shape, contract or choice of flags does not allow.
class LayoutRefused : public Error {
 public:
  using Error::Error;
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

// The plans' calls, inference first. `out` receives the assembled tensors: token
// tensors from the ranks that own their rows, gradients straight from context rank 0 as strided views; what
// other context ranks hold is compared and freed, so that no layout needs more than one whole set beyond its
// replicas.
LayoutOutcome run_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                         BlockTensors& out);

}  // namespace samebits::tools
