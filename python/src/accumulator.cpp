#include "accumulator.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "module.hpp"
#include "options.hpp"

namespace samebits::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void make(HeldAccumulator* self, const HeldPlan& plan, std::int64_t max_tokens,
          std::optional<std::int64_t> tokens, const std::string& reduction, int stretches) {
  AccumulatorOptions options;
  SharedPlan& shared = *plan.shared;
  shared.prepare([&] {
    options.max_tokens = max_tokens;
    options.tokens = tokens.value_or(-1);
    options.reduction = gradient_reduction("reduction", reduction);
    options.stretches = stretches;
  });
  std::unique_ptr<GradientAccumulator> sum;
  shared.compute(Operands(0), [&](Plan& of) { sum = std::make_unique<GradientAccumulator>(of, options); });
  new (self) HeldAccumulator{plan.shared, std::move(sum)};
}

void finish(HeldAccumulator& self, nb::handle d_gate, nb::handle d_up, nb::handle d_down,
            std::uintptr_t stream) {
  Operands operands(stream);
  Gradients out;
  self.shared->prepare([&] {
    out.d_gate = operands.out("d_gate", d_gate, DType::f32);
    out.d_up = operands.out("d_up", d_up, DType::f32);
    out.d_down = operands.out("d_down", d_down, DType::f32);
    operands.refuse_overlap();
  });
  self.shared->compute(operands, [&](Plan&) { self.sum->finish(out, queue_of(stream)); });
}

}  // namespace

void bind_accumulator(nb::module_& module) {
  nb::class_<HeldAccumulator>(module, "GradientAccumulator",
                              "Weight gradients summed over several backward calls of a plan: the bits are "
                              "those of one call over all their "
                              "tokens. Collective; keeps its plan alive.\n\n"
                              "max_tokens: of all calls together. tokens: how many there will be, exactly, "
                              "where the contract's token tree "
                              "depends on it (rules max and halve). reduction: \"auto\", \"gather\" or "
                              "\"exchange\". stretches: how many parts of "
                              "the sequence grow side by side.")
      .def("__init__", &make, "plan"_a, "max_tokens"_a, "tokens"_a = nb::none(), "reduction"_a = "auto",
           "stretches"_a = 1)
      .def("finish", &finish, "d_gate"_a.none(), "d_up"_a.none(), "d_down"_a.none(), nb::kw_only(),
           "stream"_a = 0,
           "Collective. Writes the sums, d_gate and d_up [I_r, H], d_down [H, I_r], all bfloat16 or all "
           "float32, and is "
           "empty again. ValueError where tokens are missing.")
      .def(
          "clear", [](HeldAccumulator& self) { self.sum->clear(); }, "Forgets what was added.")
      .def_prop_ro(
          "tokens", [](const HeldAccumulator& self) { return self.sum->tokens(); },
          "Added so far, on all ranks.")
      .def_prop_ro(
          "bytes", [](const HeldAccumulator& self) { return self.sum->bytes(); },
          "Of memory, all taken when it was made.");
}

}  // namespace samebits::python
