#include "verify/micro_batches.hpp"

#include <algorithm>

#include "block/staging.hpp"
#include "numerics/tree.hpp"
#include "samebits/accumulator.hpp"

namespace samebits::tools {

std::vector<std::int64_t> micro_batch_cuts(const Contract& contract, std::int64_t tokens,
                                           std::int64_t calls) {
  const numerics::AxisTree tree = numerics::axis_tree(contract, contract.tokens, tokens);
  std::vector<std::int64_t> cuts = {0};
  for (std::int64_t i = 1; i < calls; ++i) {
    const std::int64_t even = even_slice(tokens, static_cast<int>(calls), static_cast<int>(i)).begin;
    if (even >= tokens) break;
    // Down to a multiple of the granule from where the leaf begins.
    const std::int64_t leaf = tree.leaf_at(even).begin;
    const std::int64_t cut = leaf + (even - leaf) / tree.granule * tree.granule;
    if (cut > cuts.back()) cuts.push_back(cut);
  }
  if (tokens > 0) cuts.push_back(tokens);
  return cuts;
}

MicroBatchCheck check_micro_batches(const Compute& compute, const BlockCase& block, const BlockTensors& exact,
                                    std::int64_t calls) {
  const std::vector<std::int64_t> cuts = micro_batch_cuts(compute.contract, block.tokens, calls);
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) most = std::max(most, cuts[i + 1] - cuts[i]);
  const auto [hidden, intermediate] = block.shape;
  PlanOptions options = compute.plan_options(block.shape, most, {}, true);
  options.engine = compute.make_engine(compute.threads);
  Plan plan(options);
  GradientAccumulator sum(plan, {.max_tokens = block.tokens, .tokens = block.tokens});
  Staging weights(compute.device_engine);
  const Weights all =
      plan.slice(weights.input(block.gate), weights.input(block.up), weights.input(block.down));

  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Staging staging(compute.device_engine);
    HostTensor y(cuts[i + 1] - cuts[i], hidden);
    ForwardArgs forward;
    forward.x = staging.input(block.x.slice_rows(cuts[i], cuts[i + 1]));
    forward.y = staging.output(y.view());
    forward.weights = all;
    forward.queue = staging.queue();
    plan.forward(forward);
    BackwardArgs backward;
    backward.x = forward.x;
    backward.dy = staging.input(block.dy.slice_rows(cuts[i], cuts[i + 1]));
    backward.weights = all;
    backward.accumulate = &sum;
    backward.queue = staging.queue();
    plan.backward(backward);
    staging.fetch(y.view(), forward.y);  // and so waits for all of it
  }

  MicroBatchCheck check{static_cast<std::int64_t>(cuts.size()) - 1, 0};
  Staging staging(compute.device_engine);
  HostTensor d_gate(intermediate, hidden, block.gradients), d_up(intermediate, hidden, block.gradients),
      d_down(hidden, intermediate, block.gradients);
  const Gradients out{staging.output(d_gate.view()), staging.output(d_up.view()),
                      staging.output(d_down.view())};
  sum.finish(out, staging.queue());
  const auto count = [&](HostTensor& tensor, const View& there, BlockTensor which) {
    staging.fetch(tensor.view(), there);
    check.differing += count_differing(tensor.view(), exact.view(which));
  };
  count(d_gate, out.d_gate, kGateGradient);
  count(d_up, out.d_up, kUpGradient);
  count(d_down, out.d_down, kDownGradient);
  return check;
}

}  // namespace samebits::tools
