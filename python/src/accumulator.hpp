// A sum of weight gradients as Python holds it.
#pragma once

#include <memory>

#include "plan.hpp"
#include "samebits/accumulator.hpp"

namespace samebits::python {

struct HeldAccumulator {
  std::shared_ptr<SharedPlan> shared;  // outlives the sum
  std::unique_ptr<GradientAccumulator> sum;
};

}  // namespace samebits::python
