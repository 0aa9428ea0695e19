// Before the first exchange all ranks compare what they were given; all refuse together, naming the rank and
// the field.
#pragma once

#include "samebits/plan.hpp"

namespace samebits::ffn {

void shake_hands(const PlanOptions& options, DownCut down, Transport& transport);

}  // namespace samebits::ffn
