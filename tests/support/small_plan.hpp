// One rank, random operands, one forward and backward: the smallest whole use of a plan.
#pragma once

#include "samebits/plan.hpp"
#include "support/block.hpp"

namespace samebits::test {

struct SmallPlan {
  explicit SmallPlan(std::int64_t max_tokens, const char* contract = "f32-tree-v1", Shape shape = {24, 48})
      : options(make_options(max_tokens, contract, shape)),
        plan(options),
        random(7),
        in(random_inputs(random, Values::normal, shape, max_tokens)),
        y(in.x.size() + 1),
        dx(in.x.size() + 1),
        d_gate(in.gate.size()),
        d_up(in.gate.size()),
        d_down(in.gate.size()) {}

  static PlanOptions make_options(std::int64_t max_tokens, const char* contract, Shape shape) {
    PlanOptions options;
    options.contract = parse_contract(contract);
    options.shape = shape;
    options.max_tokens = max_tokens;
    options.engine = make_cpu_engine({2, Isa::automatic});
    return options;
  }
  ConstView weight(const std::vector<std::uint16_t>& data, bool down) const {
    const Shape s = in.shape;
    return host_view(static_cast<const void*>(data.data()), down ? s.hidden : s.intermediate,
                     down ? s.intermediate : s.hidden);
  }
  Weights weights() const {
    return plan.slice(weight(in.gate, false), weight(in.up, false), weight(in.down, true));
  }
  ForwardArgs forward(std::int64_t tokens) {
    ForwardArgs args;
    args.x = host_view(static_cast<const void*>(in.x.data()), tokens, in.shape.hidden);
    args.y = host_view(y.data(), tokens, in.shape.hidden);
    args.weights = weights();
    return args;
  }
  BackwardArgs backward(std::int64_t tokens) {
    BackwardArgs args;
    args.x = host_view(static_cast<const void*>(in.x.data()), tokens, in.shape.hidden);
    args.dy = host_view(static_cast<const void*>(in.dy.data()), tokens, in.shape.hidden);
    args.weights = weights();
    args.dx = host_view(dx.data(), tokens, in.shape.hidden);
    args.d_gate = host_view(d_gate.data(), in.shape.intermediate, in.shape.hidden);
    args.d_up = host_view(d_up.data(), in.shape.intermediate, in.shape.hidden);
    args.d_down = host_view(d_down.data(), in.shape.hidden, in.shape.intermediate);
    return args;
  }

  PlanOptions options;
  Plan plan;
  Random random;
  BlockInputs in;
  std::vector<std::uint16_t> y, dx, d_gate, d_up, d_down;
};

}  // namespace samebits::test
