// What a GradientAccumulator holds.
#pragma once

#include "ffn/context/accumulation.hpp"
#include "ffn/plan_impl.hpp"
#include "samebits/accumulator.hpp"

namespace samebits {

class GradientAccumulator::Impl {
 public:
  Impl(Plan::Impl& of, const AccumulatorOptions& options)
      : plan(&of),
        sum(options, of.options, of.ranks, *of.engine, *of.exchanges, of.shard.intermediate.length()) {}

  Plan::Impl* plan;
  ffn::Accumulation sum;
};

}  // namespace samebits
