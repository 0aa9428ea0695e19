// Weight gradients summed over calls, against those of one call.
#pragma once

#include <cstdint>
#include <vector>

#include "block/layout_run.hpp"
#include "block/tensors.hpp"
#include "compute/compute_flags.hpp"

namespace samebits::tools {

struct MicroBatchCheck {
  std::int64_t calls = 0;
  std::int64_t differing = 0;  // elements of the three gradients
};

// At TP1, in about so many calls, cut where the token axis can be.
MicroBatchCheck check_micro_batches(const Compute& compute, const BlockCase& block, const BlockTensors& exact,
                                    std::int64_t calls);

// The boundaries of those calls: 0, ..., tokens, ascending.
std::vector<std::int64_t> micro_batch_cuts(const Contract& contract, std::int64_t tokens, std::int64_t calls);

}  // namespace samebits::tools
