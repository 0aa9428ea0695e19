#include "plan.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <string>

#include "accumulator.hpp"
#include "module.hpp"
#include "options.hpp"
#include "samebits/error.hpp"
#include "samebits/words.hpp"

namespace samebits::python {

using namespace nb::literals;

std::vector<std::vector<Interval>> intervals_of(const Shards& shards) {
  std::vector<std::vector<Interval>> out;
  for (const auto& of_rank : shards) {
    out.emplace_back();
    for (const auto& [begin, end] : of_rank) out.back().push_back({begin, end});
  }
  return out;
}

namespace {

Shards shards_of(const TokenShards& shards) {
  Shards out;
  for (const auto& of_rank : shards.of_rank) {
    out.emplace_back();
    for (const Interval& interval : of_rank) out.back().emplace_back(interval.begin, interval.end);
  }
  return out;
}

void make(HeldPlan* self, const ContractOrText& contract, std::int64_t hidden, std::int64_t intermediate,
          std::int64_t max_tokens, int tp, int cp, bool sequence_parallel, nb::handle device, int threads,
          bool backward, const std::string& down, const std::string& weights, const std::string& gradients,
          const std::string& exchange, const std::string& overlap, int ranks_per_node,
          std::int64_t max_rank_tokens, bool own_saved, bool check_replicas,
          std::optional<HeldTransport> transport) {
  PlanOptions options;
  if (transport) options.transport = transport->transport;
  try {
    options.contract = contract_of(contract);
    options.shape = {hidden, intermediate};
    options.max_tokens = max_tokens;
    options.max_rank_tokens = max_rank_tokens;
    options.layout = {tp, cp, sequence_parallel};
    options.engine = engine_on(nb::str(device).c_str(), threads);
    options.backward = backward;
    options.down = down_cut(down);
    options.weights = weight_cut(weights);
    options.gradient_reduction = gradient_reduction("gradients", gradients);
    options.cover_exchange = cover_exchange(exchange);
    options.overlap = overlap_of(overlap);
    options.ranks_per_node = ranks_per_node;
    options.own_saved = own_saved;
    options.check_replicas = check_replicas;
  } catch (const std::exception& error) {
    tell_others(options.transport.get(), error.what());
    throw;
  }
  new (self) HeldPlan{std::make_shared<SharedPlan>(options)};
}

// The keywords of a rank's weights.
struct WeightArrays {
  nb::handle gate, up, down, gate_columns, up_columns, down_rows;
};

Weights weights_of(Operands& operands, const WeightArrays& arrays) {
  return {operands.in("gate", arrays.gate),
          operands.in("up", arrays.up),
          operands.in("down", arrays.down),
          operands.in("gate_columns", arrays.gate_columns),
          operands.in("up_columns", arrays.up_columns),
          operands.in("down_rows", arrays.down_rows)};
}

// (gate, up, act) of one forward: written by it, read by its backward.
Saved saved_of(Operands& operands, nb::handle saved, bool written) {
  if (saved.is_none()) return {};
  if (!PyTuple_Check(saved.ptr()) || PyTuple_GET_SIZE(saved.ptr()) != 3)
    throw nb::type_error("saved is a tuple of three arrays: gate, up and act");
  const char* names[] = {"saved.gate", "saved.up", "saved.act"};
  View views[3];
  for (int i = 0; i < 3; ++i) {
    const nb::handle array = PyTuple_GET_ITEM(saved.ptr(), i);
    if (written) {
      views[i] = operands.out(names[i], array);
    } else {
      const ConstView view = operands.in(names[i], array);
      views[i] = {const_cast<void*>(view.data),
                  view.dtype,
                  view.rows,
                  view.cols,
                  view.row_stride,
                  view.col_stride,
                  view.device};
    }
  }
  return {views[0], views[1], views[2]};
}

// -1 where there is none, which is no count that Python may give.
std::int64_t count_of(const char* name, const std::optional<std::int64_t>& given) {
  if (given && *given < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is {}: a count is not negative", name, *given));
  return given.value_or(-1);
}

// Null where there are none.
class GivenShards {
 public:
  void set(const std::optional<Shards>& shards) {
    if (shards) shards_ = TokenShards::of(intervals_of(*shards));
  }
  const TokenShards* get() const { return shards_ ? &*shards_ : nullptr; }

 private:
  std::optional<TokenShards> shards_;
};

void forward(HeldPlan& self, nb::handle x, nb::handle y, nb::handle gate, nb::handle up, nb::handle down,
             nb::handle gate_columns, nb::handle up_columns, nb::handle down_rows,
             const std::optional<Shards>& shards, std::optional<std::int64_t> tokens, nb::handle saved,
             std::uintptr_t stream) {
  Operands operands(stream);
  ForwardArgs args;
  GivenShards given;
  self.shared->prepare([&] {
    args.x = operands.in("x", x);
    args.y = operands.out("y", y);
    args.weights = weights_of(operands, {gate, up, down, gate_columns, up_columns, down_rows});
    given.set(shards);
    args.shards = given.get();
    args.tokens = count_of("tokens", tokens);
    args.saved = saved_of(operands, saved, true);
    args.queue = queue_of(stream);
    operands.refuse_overlap();
  });
  self.shared->compute(operands, [&](Plan& plan) { plan.forward(args); });
}

void backward(HeldPlan& self, nb::handle x, nb::handle dy, nb::handle gate, nb::handle up, nb::handle down,
              nb::handle dx, nb::handle d_gate, nb::handle d_up, nb::handle d_down, nb::handle gate_columns,
              nb::handle up_columns, nb::handle down_rows, const std::optional<Shards>& shards,
              std::optional<std::int64_t> tokens, nb::handle saved, std::uintptr_t stream,
              std::optional<std::int64_t> counted, std::optional<HeldAccumulator*> accumulate,
              const std::optional<Shards>& places) {
  Operands operands(stream);
  BackwardArgs args;
  GivenShards given;
  std::vector<std::vector<Interval>> given_places;
  self.shared->prepare([&] {
    args.x = operands.in("x", x);
    args.dy = operands.in("dy", dy);
    args.weights = weights_of(operands, {gate, up, down, gate_columns, up_columns, down_rows});
    args.dx = operands.out("dx", dx);
    args.d_gate = operands.out("d_gate", d_gate, DType::f32);
    args.d_up = operands.out("d_up", d_up, DType::f32);
    args.d_down = operands.out("d_down", d_down, DType::f32);
    given.set(shards);
    args.shards = given.get();
    args.tokens = count_of("tokens", tokens);
    args.saved = saved_of(operands, saved, false);
    args.queue = queue_of(stream);
    args.counted = count_of("counted", counted);
    if (accumulate) args.accumulate = (*accumulate)->sum.get();
    if (places) {
      given_places = intervals_of(*places);
      args.places = &given_places;
    }
    operands.refuse_overlap();
  });
  self.shared->compute(operands, [&](Plan& plan) { plan.backward(args); });
}

std::pair<std::int64_t, std::int64_t> ends(const Interval& interval) {
  return {interval.begin, interval.end};
}

void bind_shards(nb::module_& module) {
  nb::class_<RankShard>(module, "RankShard", "What a rank holds of the weights.")
      .def_ro("tp_rank", &RankShard::tp_rank)
      .def_ro("cp_rank", &RankShard::cp_rank)
      .def_prop_ro(
          "intermediate", [](const RankShard& self) { return ends(self.intermediate); },
          "(begin, end): rows of gate and up, columns of down.")
      .def_prop_ro(
          "hidden", [](const RankShard& self) { return ends(self.hidden); },
          "(begin, end): columns of gate and up, rows of down, where down is cut by rows.")
      .def("__repr__", [](const RankShard& self) {
        return fmt::format("RankShard(tp_rank={}, cp_rank={}, intermediate=({}, {}), hidden=({}, {}))",
                           self.tp_rank, self.cp_rank, self.intermediate.begin, self.intermediate.end,
                           self.hidden.begin, self.hidden.end);
      });
  module.def(
      "contiguous_shards",
      [](std::int64_t tokens, int cp) { return shards_of(TokenShards::contiguous(tokens, cp)); }, "tokens"_a,
      "cp"_a, "The tokens of each context rank, as even as whole tokens allow: [[(begin, end)], ...].");
  module.def(
      "zigzag_shards", [](std::int64_t tokens, int cp) { return shards_of(TokenShards::zigzag(tokens, cp)); },
      "tokens"_a, "cp"_a, "Ring attention's balance: of 2*cp chunks, rank r holds chunks r and 2*cp-1-r.");
}

const char* kPlanDoc =
    "The block, checked once, with all the memory that its calls need. Collective: every rank of the layout "
    "makes its "
    "own, with its own transport.\n\n"
    "contract: a Contract or its text. hidden, intermediate: H and I, of the whole block. max_tokens: of the "
    "whole "
    "sequence, in any call. tp, cp, sequence_parallel: the layout; rank = cp_rank * tp + tp_rank. device: "
    "\"cpu\", "
    "\"cuda\", \"cuda:N\", \"hip\" or \"hip:N\". threads: of a CPU engine, 0 for all. backward=False: an "
    "inference plan, with "
    "less memory. "
    "down: how the down projection is cut, \"auto\", \"columns\" or \"rows\". weights: \"auto\", \"once\" or "
    "\"both\" "
    "ways. gradients: \"auto\", \"gather\" tokens or \"exchange\" covers. exchange: \"auto\", \"one-shot\" "
    "or "
    "\"slice-owner\". overlap: \"auto\" or \"off\". ranks_per_node: neighbours on a machine, 0 where not "
    "said. "
    "max_rank_tokens: of one context rank, 0 for what an even or zigzag split gives it. own_saved=False: no "
    "room for "
    "what a forward leaves for its backward, which calls bring then (saved). check_replicas=True: every call "
    "compares, by digests, what ranks hold copies "
    "of: the "
    "order of the tokens, x and dy of tensor ranks, weights of context ranks; RankError where they differ. "
    "Slow: "
    "for "
    "finding faults. transport: None for one rank.\n\n"
    "ValueError, Refused, EnvironmentProblem, MemoryError; RankError where ranks were given different "
    "things. Calls from "
    "several threads come one after the other.";

const char* kForwardDoc =
    "y = down(silu(gate(x)) * up(x)). Collective.\n\n"
    "x, y: [tokens, H], bfloat16, the rank's tokens in global order (its slice of them under sequence "
    "parallelism). gate, "
    "up: [I_r, H]. down: [H, I_r]. By rows: gate_columns, up_columns [I, H_r], down_rows [H_r, I]. shards: "
    "[[(begin, end), ...], ...] of each context rank; None: `tokens` split evenly; tokens: of the whole "
    "sequence, None "
    "where a rank holds all of them. saved: (gate, up, act), [tokens of the context rank, I_r] each, packed, "
    "for a "
    "backward that comes after other forwards; None: the plan's own. y None: only what a backward reads is "
    "computed, "
    "without down, which is not read. stream: a CUDA stream's handle, 0 the default one.";

const char* kBackwardDoc =
    "Gradients of a forward of the same tokens. Collective.\n\n"
    "dy, dx: as x. d_gate, d_up: [I_r, H]; d_down: [H, I_r]; bfloat16 or float32, all three or none. "
    "counted: how many "
    "tokens, from the first on, count for weight gradients. accumulate: a GradientAccumulator that is added "
    "to instead. "
    "places: where the counted tokens of each context rank stand in the sequence that is summed; None: "
    "behind those "
    "before. The rest as in forward.";

}  // namespace

void bind_plan(nb::module_& module) {
  bind_shards(module);
  nb::class_<HeldPlan>(module, "Plan", kPlanDoc)
      .def("__init__", &make, "contract"_a, "hidden"_a, "intermediate"_a, "max_tokens"_a, nb::kw_only(),
           "tp"_a = 1, "cp"_a = 1, "sequence_parallel"_a = false, "device"_a = "cpu", "threads"_a = 0,
           "backward"_a = true, "down"_a = "auto", "weights"_a = "auto", "gradients"_a = "auto",
           "exchange"_a = "auto", "overlap"_a = "auto", "ranks_per_node"_a = 0, "max_rank_tokens"_a = 0,
           "own_saved"_a = true, "check_replicas"_a = false, "transport"_a = nb::none())
      .def("forward", &forward, "x"_a.none(), "y"_a.none(), "gate"_a.none(), "up"_a.none(),
           "down"_a = nb::none(), nb::kw_only(), "gate_columns"_a = nb::none(), "up_columns"_a = nb::none(),
           "down_rows"_a = nb::none(), "shards"_a = nb::none(), "tokens"_a = nb::none(),
           "saved"_a = nb::none(), "stream"_a = 0, kForwardDoc)
      .def("backward", &backward, "x"_a.none(), "dy"_a.none(), "gate"_a.none(), "up"_a.none(),
           "down"_a.none(), nb::kw_only(), "dx"_a = nb::none(), "d_gate"_a = nb::none(),
           "d_up"_a = nb::none(), "d_down"_a = nb::none(), "gate_columns"_a = nb::none(),
           "up_columns"_a = nb::none(), "down_rows"_a = nb::none(), "shards"_a = nb::none(),
           "tokens"_a = nb::none(), "saved"_a = nb::none(), "stream"_a = 0, "counted"_a = nb::none(),
           "accumulate"_a = nb::none(), "places"_a = nb::none(), kBackwardDoc)
      .def_prop_ro("contract", [](const HeldPlan& self) { return self.shared->options().contract; })
      .def_prop_ro("hidden", [](const HeldPlan& self) { return self.shared->options().shape.hidden; })
      .def_prop_ro("intermediate",
                   [](const HeldPlan& self) { return self.shared->options().shape.intermediate; })
      .def_prop_ro("max_tokens", [](const HeldPlan& self) { return self.shared->options().max_tokens; })
      .def_prop_ro(
          "layout", [](const HeldPlan& self) { return name_of(self.shared->options().layout); },
          "\"tp2+cp2+sp\"")
      .def_prop_ro(
          "shard", [](const HeldPlan& self) { return self.shared->plan().shard(); }, "What this rank holds.")
      .def_prop_ro(
          "down",
          [](const HeldPlan& self) { return std::string(word_of(kDownWords, self.shared->plan().down())); },
          "How down is cut: \"columns\" or \"rows\".")
      .def_prop_ro(
          "holds_both_cuts", [](const HeldPlan& self) { return self.shared->plan().holds_both_cuts(); },
          "Whether the rank's weights are cut both ways.")
      .def_prop_ro(
          "workspace_bytes", [](const HeldPlan& self) { return self.shared->plan().workspace_bytes(); },
          "Of the operator and of its engine.")
      .def_prop_ro(
          "exposed_seconds", [](const HeldPlan& self) { return self.shared->plan().exposed_seconds(); },
          "That calls have waited for exchanges of host memory so far.");
}

}  // namespace samebits::python
