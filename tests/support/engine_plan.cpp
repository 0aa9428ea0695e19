#include "support/engine_plan.hpp"

#include <fmt/format.h>

namespace samebits::test {
namespace {

PlanOptions plan_options(std::shared_ptr<engine::Engine> engine, const EnginePlanOptions& given,
                         const BlockInputs& in) {
  PlanOptions options;
  options.contract = given.contract;
  options.shape = in.shape;
  options.max_tokens = in.tokens;
  options.engine = std::move(engine);
  options.backward = given.backward;
  return options;
}

DType gradient_type(const EnginePlanOptions& options) {
  return options.f32_gradients ? DType::f32 : DType::bf16;
}

}  // namespace

EnginePlan::EnginePlan(std::shared_ptr<engine::Engine> engine, const EnginePlanOptions& options,
                       const BlockInputs& in)
    : engine_(std::move(engine)),
      queue_(engine_->make_queue()),
      plan(plan_options(engine_, options, in)),
      x(*engine_, in.tokens, in.shape.hidden, DType::bf16, options.placement),
      dy(*engine_, in.tokens, in.shape.hidden, DType::bf16, options.placement),
      gate(*engine_, in.shape.intermediate, in.shape.hidden, DType::bf16, options.placement),
      up(*engine_, in.shape.intermediate, in.shape.hidden, DType::bf16, options.placement),
      down(*engine_, in.shape.hidden, in.shape.intermediate, DType::bf16, options.placement),
      y(*engine_, in.tokens, in.shape.hidden, DType::bf16, options.placement),
      dx(*engine_, in.tokens, in.shape.hidden, DType::bf16, options.placement),
      d_gate(*engine_, in.shape.intermediate, in.shape.hidden, gradient_type(options), options.placement),
      d_up(*engine_, in.shape.intermediate, in.shape.hidden, gradient_type(options), options.placement),
      d_down(*engine_, in.shape.hidden, in.shape.intermediate, gradient_type(options), options.placement) {
  take_inputs(in);
}

void EnginePlan::take_inputs(const BlockInputs& in) {
  x.write(in.x.data(), queue()), dy.write(in.dy.data(), queue());
  gate.write(in.gate.data(), queue()), up.write(in.up.data(), queue()), down.write(in.down.data(), queue());
}

ForwardArgs EnginePlan::forward(std::int64_t tokens, std::int64_t first) const {
  ForwardArgs args;
  args.x = x.view().slice_rows(first, first + tokens);
  args.y = y.view().slice_rows(first, first + tokens);
  args.weights = plan.slice(gate.view(), up.view(), down.view());
  args.queue = queue();
  return args;
}

BackwardArgs EnginePlan::backward(std::int64_t tokens, std::int64_t first) const {
  BackwardArgs args;
  args.x = x.view().slice_rows(first, first + tokens);
  args.dy = dy.view().slice_rows(first, first + tokens);
  args.weights = plan.slice(gate.view(), up.view(), down.view());
  args.dx = dx.view().slice_rows(first, first + tokens);
  args.d_gate = d_gate.view();
  args.d_up = d_up.view();
  args.d_down = d_down.view();
  args.queue = queue();
  return args;
}

void EnginePlan::poison_results() {
  for (Matrix* result : {&y, &dx, &d_gate, &d_up, &d_down}) result->poison(queue());
}

void EnginePlan::run(std::int64_t tokens, std::int64_t first) {
  poison_results();
  plan.forward(forward(tokens, first));
  plan.backward(backward(tokens, first));
  wait();
}

BlockOutputs EnginePlan::outputs() const {
  BlockOutputs out;
  out.y = out.training_y = y.read<std::uint16_t>(queue());
  out.dx = dx.read<std::uint16_t>(queue());
  if (d_gate.view().dtype == DType::f32) {
    out.d_gate_f32 = d_gate.read<float>(queue());
    out.d_up_f32 = d_up.read<float>(queue());
    out.d_down_f32 = d_down.read<float>(queue());
  } else {
    out.d_gate = d_gate.read<std::uint16_t>(queue());
    out.d_up = d_up.read<std::uint16_t>(queue());
    out.d_down = d_down.read<std::uint16_t>(queue());
  }
  out.problem = damage();
  return out;
}

std::string EnginePlan::damage() const {
  const Matrix* const all[] = {&x, &dy, &gate, &up, &down, &y, &dx, &d_gate, &d_up, &d_down};
  const char* const names[] = {"x", "dy", "gate", "up", "down", "y", "dx", "d_gate", "d_up", "d_down"};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    if (!all[i]->guards_hold(queue())) return fmt::format("written around {}", names[i]);
  }
  return {};
}

BlockOutputs cpu_outputs(const Contract& contract, const BlockInputs& in, bool f32_gradients) {
  static const std::shared_ptr<engine::Engine> engine = make_cpu_engine();
  EnginePlan plan(engine, {contract, {}, f32_gradients}, in);
  plan.run(in.tokens);
  return plan.outputs();
}

BlockInputs tokens_of(const BlockInputs& in, std::int64_t first, std::int64_t tokens) {
  BlockInputs part = in;
  const std::int64_t begin = first * in.shape.hidden, end = (first + tokens) * in.shape.hidden;
  part.tokens = tokens;
  part.x.assign(in.x.begin() + begin, in.x.begin() + end);
  part.dy.assign(in.dy.begin() + begin, in.dy.begin() + end);
  return part;
}

}  // namespace samebits::test
