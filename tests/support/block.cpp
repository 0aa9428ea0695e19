#include "support/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <span>
#include <type_traits>

#include "support/callback_world.hpp"
#include "support/delays.hpp"
#include "support/emulated_tiles.hpp"
#include "support/equality.hpp"
#include "support/played_device.hpp"
#include "support/rank_rows.hpp"

namespace samebits::test {
namespace {

// Collects shards into whole tensors; an element that arrives twice must arrive with the same bits.
class Assembly {
 public:
  template <class T>
  void put(const char* name, std::vector<T>& whole, std::vector<bool>& seen, std::int64_t whole_cols,
           std::span<const std::int64_t> rows, std::int64_t col0, std::int64_t cols, const T* part,
           int rank) {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t row : rows) {
      for (std::int64_t col = col0; col < col0 + cols; ++col, ++part) {
        const auto at = static_cast<std::size_t>(row * whole_cols + col);
        if (seen[at] && !same_element(whole[at], *part) && problem.empty()) {
          problem =
              fmt::format("{} of rank {} differs from another rank's copy at [{}, {}]", name, rank, row, col);
        }
        whole[at] = *part;
        seen[at] = true;
      }
    }
  }
  void complain(const std::string& words) {
    const std::lock_guard lock(mutex_);
    if (problem.empty()) problem = words;
  }
  std::string problem;

 private:
  std::mutex mutex_;
};

std::vector<bool> flags(std::size_t count) { return std::vector<bool>(count, false); }

std::shared_ptr<engine::Engine> engine_of(const BlockRun& run, int rank) {
  if (run.played)
    return played_device(run.threads, run.delay_seed + static_cast<std::uint64_t>(rank), run.delays);
  if (run.emulated) return emulated_tiles();
  return run.engine == EngineKind::cpu ? make_cpu_engine({run.threads, run.isa}) : device_engine(run.engine);
}

PlanOptions options_of(const BlockRun& run, const BlockInputs& in, std::shared_ptr<engine::Engine> engine,
                       std::shared_ptr<Transport> transport) {
  PlanOptions options;
  options.contract = run.contract;
  options.shape = in.shape;
  options.max_tokens = in.tokens;
  options.max_rank_tokens = in.tokens;
  options.layout = run.layout;
  options.engine = std::move(engine);
  options.transport = std::move(transport);
  options.down = run.down;
  options.weights = run.weights;
  options.gradient_reduction = run.gradients;
  options.cover_exchange = run.covers;
  options.ranks_per_node = run.ranks_per_node;
  options.gradient_bytes = run.gradient_bytes;
  options.one_shot_bytes = run.one_shot_bytes;
  options.overlap = run.overlap;
  options.chunks = run.chunks;
  options.control = run.control;
  options.own_saved = !run.given_saved;
  return options;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

std::vector<std::uint16_t> gathered(const std::vector<std::uint16_t>& whole,
                                    const std::vector<std::int64_t>& rows, std::int64_t cols) {
  std::vector<std::uint16_t> part;
  part.reserve(rows.size() * static_cast<std::size_t>(cols));
  for (const std::int64_t row : rows)
    part.insert(part.end(), whole.begin() + row * cols, whole.begin() + (row + 1) * cols);
  return part;
}

TokenShards split_tokens(const BlockRun& run, std::int64_t tokens) {
  const int cp = run.layout.cp;
  if (run.shards) return *run.shards;
  if (run.split == TokenSplit::contiguous) return TokenShards::contiguous(tokens, cp);
  if (run.split == TokenSplit::zigzag) return TokenShards::zigzag(tokens, cp);
  Random random(run.split_seed);
  std::vector<std::vector<Interval>> of_rank(static_cast<std::size_t>(cp));
  for (std::int64_t at = 0; at < tokens;) {
    const std::int64_t end =
        std::min(tokens, at + uniform(random, 1, std::max<std::int64_t>(1, tokens / cp)));
    of_rank[static_cast<std::size_t>(uniform(random, 0, cp - 1))].push_back({at, end});
    at = end;
  }
  return TokenShards::of(of_rank);
}

}  // namespace

BlockInputs random_inputs(Random& random, Values kind, Shape shape, std::int64_t tokens) {
  BlockInputs in{shape, tokens, {}, {}, {}, {}, {}};
  // Products of two subnormals are zero: where all tensors hold them, nothing is left to compare.
  const auto some = [&] {
    return kind == Values::subnormal && uniform(random, 0, 1) == 0 ? Values::normal : kind;
  };
  in.x = random_tensor(random, some(), tokens * shape.hidden);
  in.dy = random_tensor(random, some(), tokens * shape.hidden);
  in.gate = random_tensor(random, some(), shape.intermediate * shape.hidden);
  in.up = random_tensor(random, some(), shape.intermediate * shape.hidden);
  in.down = random_tensor(random, some(), shape.hidden * shape.intermediate);
  return in;
}

std::string describe(const BlockRun& run) {
  const std::string engine =
      run.engine == EngineKind::cpu
          ? fmt::format("cpu, isa {}, {} threads", static_cast<int>(run.isa), run.threads)
          : name_of(run.engine);
  return fmt::format(
      "{} on {}, {}, split {}/{}, down {}, gradients {}, covers {} up to {} bytes, overlap {} in {} chunks "
      "of {} rows "
      "by {}, {} ranks a node{}, rows {} apart from {}{}{}{}",
      canonical(run.contract), name_of(run.layout), engine, static_cast<int>(run.split), run.split_seed,
      static_cast<int>(run.down), static_cast<int>(run.gradients), static_cast<int>(run.covers),
      run.one_shot_bytes, static_cast<int>(run.overlap), run.chunks.most, run.chunks.least_rows,
      run.chunks.multiple, run.ranks_per_node,
      run.played      ? ", on a played device"
      : run.callbacks ? (run.concurrent ? ", callbacks" : ", callbacks in turn")
                      : "",
      run.placement.padding, run.placement.shift, run.f32_gradients ? ", f32 gradients" : "",
      run.given_saved ? ", activations given" : "", run.recompute ? " and computed anew" : "");
}

BlockOutputs run_block(const BlockRun& run, const BlockInputs& in) {
  const std::int64_t hidden = in.shape.hidden, intermediate = in.shape.intermediate, tokens = in.tokens;
  const TokenShards shards = split_tokens(run, tokens);
  BlockOutputs out;
  const auto activations = static_cast<std::size_t>(tokens * hidden),
             weights = static_cast<std::size_t>(hidden * intermediate);
  out.y.resize(activations), out.training_y.resize(activations), out.dx.resize(activations);
  out.d_gate.resize(weights), out.d_up.resize(weights), out.d_down.resize(weights);
  out.d_gate_f32.resize(weights), out.d_up_f32.resize(weights), out.d_down_f32.resize(weights);
  Assembly assembly;
  std::vector<bool> seen_y = flags(activations), seen_t = flags(activations), seen_dx = flags(activations);
  std::vector<bool> seen_gate = flags(weights), seen_up = flags(weights), seen_down = flags(weights);

  // Whole weights, of which every rank sees its slices.
  const std::shared_ptr<engine::Engine> memory = engine_of(run, -1);
  Matrix gate(*memory, intermediate, hidden, DType::bf16, run.placement),
      up(*memory, intermediate, hidden, DType::bf16, run.placement),
      down(*memory, hidden, intermediate, DType::bf16, run.placement);
  gate.write(in.gate.data()), up.write(in.up.data()), down.write(in.down.data());
  const auto check_operand = [&](const char* name, const Matrix& matrix, const auto& given, Queue queue) {
    if (matrix.read<std::uint16_t>(queue) != given) assembly.complain(fmt::format("{} was changed", name));
    if (!matrix.guards_hold(queue)) assembly.complain(fmt::format("written around {}", name));
  };

  const auto body = [&](int rank, std::shared_ptr<Transport> transport) {
    const std::shared_ptr<engine::Engine> engine = engine_of(run, rank);
    const engine::OwnedQueue own_queue = engine->make_queue();
    const Queue queue{own_queue.get()};
    if (run.played) {
      transport = enqueuing_transport(std::move(transport));  // whose queues are late by themselves
    } else if (run.delays > 0) {
      transport = delayed_transport(std::move(transport), run.delay_seed + static_cast<std::uint64_t>(rank),
                                    run.delays);
    }
    const PlanOptions options = options_of(run, in, engine, std::move(transport));
    PlanOptions inference = options;
    inference.backward = false;
    inference.own_saved = true;
    inference.weights = WeightCut::automatic;
    Plan training_plan(options), inference_plan(inference);
    std::optional<Plan> other_plan;
    if (run.recompute) other_plan.emplace(options);
    Plan& backward_plan = run.recompute ? *other_plan : training_plan;

    const RankShard& shard = training_plan.shard();
    const std::vector<std::int64_t> rows = rows_of(run.layout, shard, shards);
    const auto count = static_cast<std::int64_t>(rows.size()), held = shard.intermediate.length();
    const DType dtype = run.f32_gradients ? DType::f32 : DType::bf16;
    const auto matrix = [&](std::int64_t r, std::int64_t c, DType type) {
      return Matrix(*engine, r, c, type, run.placement);
    };
    const std::vector<std::uint16_t> my_x = gathered(in.x, rows, hidden),
                                     my_dy = gathered(in.dy, rows, hidden);
    Matrix x = matrix(count, hidden, DType::bf16), dy = matrix(count, hidden, DType::bf16);
    x.write(my_x.data(), queue), dy.write(my_dy.data(), queue);
    const Matrix y = matrix(count, hidden, DType::bf16), t = matrix(count, hidden, DType::bf16),
                 dx = matrix(count, hidden, DType::bf16), d_gate = matrix(held, hidden, dtype),
                 d_up = matrix(held, hidden, dtype), d_down = matrix(hidden, held, dtype);

    const std::int64_t all_held = shards.count(shard.cp_rank);
    const auto activation = [&] { return Matrix(*engine, all_held, held, DType::bf16, {}); };
    const Matrix saved_gate = activation(), saved_up = activation(), saved_act = activation();

    ForwardArgs forward;
    forward.x = x.view();
    forward.shards = &shards;
    forward.y = y.view();
    forward.weights = inference_plan.slice(gate.view(), up.view(), down.view());
    forward.queue = queue;
    inference_plan.forward(forward);
    forward.y = t.view();
    forward.weights = training_plan.slice(gate.view(), up.view(), down.view());
    if (run.given_saved) forward.saved = {saved_gate.view(), saved_up.view(), saved_act.view()};
    if (run.recompute && run.given_saved) {
      const Matrix gone_gate = activation(), gone_up = activation(), gone_act = activation();
      ForwardArgs first = forward;
      first.saved = {gone_gate.view(), gone_up.view(), gone_act.view()};
      training_plan.forward(first);
      engine->synchronize(queue);
    } else {
      training_plan.forward(forward);
    }
    if (run.recompute) {
      forward.y = {};
      backward_plan.forward(forward);
    }
    BackwardArgs backward;
    backward.saved = forward.saved;
    backward.x = x.view();
    backward.dy = dy.view();
    backward.weights = forward.weights;
    backward.shards = &shards;
    backward.dx = dx.view();
    backward.d_gate = d_gate.view();
    backward.d_up = d_up.view();
    backward.d_down = d_down.view();
    backward.queue = queue;
    backward_plan.backward(backward);

    const auto collect = [&](const char* name, auto& whole, std::vector<bool>& seen, std::int64_t whole_cols,
                             std::span<const std::int64_t> at, std::int64_t col0, const Matrix& part) {
      using T = typename std::remove_reference_t<decltype(whole)>::value_type;
      const std::vector<T> elements = part.read<T>(queue);
      assembly.put(name, whole, seen, whole_cols, at, col0, part.cols(), elements.data(), rank);
      if (!part.guards_hold(queue))
        assembly.complain(fmt::format("written around {} of rank {}", name, rank));
    };
    collect("y", out.y, seen_y, hidden, rows, 0, y);
    collect("training y", out.training_y, seen_t, hidden, rows, 0, t);
    collect("dx", out.dx, seen_dx, hidden, rows, 0, dx);
    const Interval mine = shard.intermediate;
    const std::vector<std::int64_t> my_rows = range(mine.begin, mine.end), all_rows = range(0, hidden);
    const auto collect_gradients = [&](auto& whole_gate, auto& whole_up, auto& whole_down) {
      collect("d_gate", whole_gate, seen_gate, hidden, my_rows, 0, d_gate);
      collect("d_up", whole_up, seen_up, hidden, my_rows, 0, d_up);
      collect("d_down", whole_down, seen_down, intermediate, all_rows, mine.begin, d_down);
    };
    if (run.f32_gradients) {
      collect_gradients(out.d_gate_f32, out.d_up_f32, out.d_down_f32);
    } else {
      collect_gradients(out.d_gate, out.d_up, out.d_down);
    }
    check_operand("x", x, my_x, queue);
    check_operand("dy", dy, my_dy, queue);
  };
  if (run.callbacks) {
    run_callback_world_on(*memory, run.layout.ranks(), run.concurrent, body);
  } else {
    run_local(run.layout.ranks(), body);
  }
  check_operand("gate", gate, in.gate, {});
  check_operand("up", up, in.up, {});
  check_operand("down", down, in.down, {});
  for (const auto* seen : {&seen_y, &seen_t, &seen_dx, &seen_gate, &seen_up, &seen_down}) {
    if (std::find(seen->begin(), seen->end(), false) != seen->end())
      assembly.complain("an element arrived from no rank");
  }
  out.problem = assembly.problem;
  return out;
}

void expect_same_outputs(const std::string& what, const BlockOutputs& got, const BlockOutputs& expected,
                         const BlockInputs& in, bool f32_gradients) {
  const std::int64_t hidden = in.shape.hidden, intermediate = in.shape.intermediate;
  EXPECT_EQ(got.problem, "") << what;
  expect_same_bits(what + "y", got.y, expected.y, in.tokens, hidden);
  expect_same_bits(what + "training y", got.training_y, expected.training_y, in.tokens, hidden);
  expect_same_bits(what + "dx", got.dx, expected.dx, in.tokens, hidden);
  if (f32_gradients) {
    expect_same_bits(what + "d_gate", got.d_gate_f32, expected.d_gate_f32, intermediate, hidden);
    expect_same_bits(what + "d_up", got.d_up_f32, expected.d_up_f32, intermediate, hidden);
    expect_same_bits(what + "d_down", got.d_down_f32, expected.d_down_f32, hidden, intermediate);
  } else {
    expect_same_bits(what + "d_gate", got.d_gate, expected.d_gate, intermediate, hidden);
    expect_same_bits(what + "d_up", got.d_up, expected.d_up, intermediate, hidden);
    expect_same_bits(what + "d_down", got.d_down, expected.d_down, hidden, intermediate);
  }
}

void expect_equals_reference(const BlockRun& run, const BlockInputs& in, const reference::Outputs& expected,
                             const std::string& context) {
  BlockOutputs all{
      expected.y,      expected.y,          expected.dx,       expected.d_gate,     expected.d_up,
      expected.d_down, expected.d_gate_f32, expected.d_up_f32, expected.d_down_f32, {}};
  expect_same_outputs(context + ": " + describe(run) + ": ", run_block(run, in), all, in, run.f32_gradients);
}

}  // namespace samebits::test
