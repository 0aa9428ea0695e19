// How a layout cuts the weights over its tensor ranks: what a plan does, and what its traffic is counted by.
#pragma once

#include <cstdint>
#include <vector>

#include "numerics/tree.hpp"
#include "samebits/plan.hpp"

namespace samebits::ffn {

struct WeightCuts {
  DownCut down = DownCut::columns;         // columns or rows
  bool both = false;                       // ranks hold their weights cut both ways
  std::vector<std::int64_t> intermediate;  // tp + 1 ascending ends
  std::vector<std::int64_t> hidden;        // likewise, even
  bool by_rows() const { return down == DownCut::rows; }
};

// Columns where the TP degree cuts between leaves, rows elsewhere. Error(refused) where the options want what
// the contract's tree or a backward does not allow.
WeightCuts choose_weight_cuts(const PlanOptions& options, const numerics::AxisTree& intermediate);

}  // namespace samebits::ffn
