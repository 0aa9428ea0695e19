#include "support/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "support/callback_world.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

// A matrix with rows 5 elements further apart than they need be when `strided`, filled with a guard pattern.
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t cols, DType dtype, bool strided)
      : bytes(static_cast<std::size_t>(rows * (cols + 5)) * size_of(dtype) + 8, 0xA5),
        view{bytes.data(), dtype, rows, cols, strided ? cols + 5 : cols, 1, {}} {}
  std::vector<unsigned char> bytes;
  View view;
};

void copy_rows(const View& to, const ConstView& from) {
  const std::size_t size = size_of(from.dtype);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(
        static_cast<unsigned char*>(to.data) + static_cast<std::size_t>(row * to.row_stride) * size,
        static_cast<const unsigned char*>(from.data) + static_cast<std::size_t>(row * from.row_stride) * size,
        static_cast<std::size_t>(from.cols) * size);
  }
}

// Collects shards into whole tensors; an element that arrives twice must arrive with the same bits.
class Assembly {
 public:
  template <class T>
  void put(const char* name, std::vector<T>& whole, std::vector<bool>& seen, std::int64_t whole_cols,
           std::int64_t row0, std::int64_t col0, const ConstView& part, int rank) {
    const std::lock_guard lock(mutex_);
    for (std::int64_t row = 0; row < part.rows; ++row) {
      const T* const from = static_cast<const T*>(part.data) + row * part.row_stride;
      for (std::int64_t col = 0; col < part.cols; ++col) {
        const auto at = static_cast<std::size_t>((row0 + row) * whole_cols + col0 + col);
        if (seen[at] && !same_element(whole[at], from[col]) && difference.empty()) {
          difference = fmt::format("{} of rank {} differs from another rank's copy at [{}, {}]", name, rank,
                                   row0 + row, col0 + col);
        }
        whole[at] = from[col];
        seen[at] = true;
      }
    }
  }
  std::string difference;

 private:
  std::mutex mutex_;
};

std::vector<bool> flags(std::size_t count) { return std::vector<bool>(count, false); }

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
  return fmt::format("{} on {}, isa {}, {} threads, split {}/{}, down {}, gradients {}, covers {}{}{}{}",
                     canonical(run.contract), name_of(run.layout), static_cast<int>(run.isa), run.threads,
                     static_cast<int>(run.split), run.split_seed, static_cast<int>(run.down),
                     static_cast<int>(run.gradients), static_cast<int>(run.covers),
                     run.callbacks ? ", callbacks" : "", run.strided ? ", strided" : "",
                     run.f32_gradients ? ", f32 gradients" : "");
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

  const auto body = [&](int rank, std::shared_ptr<Transport> transport) {
    PlanOptions options;
    options.contract = run.contract;
    options.shape = in.shape;
    options.max_tokens = tokens;
    options.max_rank_tokens = tokens;
    options.layout = run.layout;
    options.engine = make_cpu_engine({run.threads, run.isa});
    options.transport = std::move(transport);
    options.down = run.down;
    options.weights = run.weights;
    options.gradient_reduction = run.gradients;
    options.cover_exchange = run.covers;
    options.control = run.control;
    PlanOptions inference = options;
    inference.backward = false;
    inference.weights = WeightCut::automatic;
    Plan training_plan(options), inference_plan(inference);

    // The rank's tokens in global order, then its slice of them under sequence parallelism.
    const RankShard& shard = training_plan.shard();
    const auto& intervals = shards.of_rank[static_cast<std::size_t>(shard.cp_rank)];
    std::vector<std::int64_t> rows;
    for (const Interval& interval : intervals) {
      for (std::int64_t t = interval.begin; t < interval.end; ++t) rows.push_back(t);
    }
    if (run.layout.sequence_parallel && run.layout.tp > 1) {
      const Interval slice = even_slice(static_cast<std::int64_t>(rows.size()), run.layout.tp, shard.tp_rank);
      rows = {rows.begin() + slice.begin, rows.begin() + slice.end};
    }
    const auto count = static_cast<std::int64_t>(rows.size());
    Matrix x(count, hidden, DType::bf16, run.strided), dy(count, hidden, DType::bf16, run.strided);
    Matrix y(count, hidden, DType::bf16, run.strided), t(count, hidden, DType::bf16, run.strided);
    Matrix dx(count, hidden, DType::bf16, run.strided);
    for (std::int64_t row = 0; row < count; ++row) {
      copy_rows(x.view.slice_rows(row, row + 1), host_view(in.x.data() + rows[row] * hidden, 1, hidden));
      copy_rows(dy.view.slice_rows(row, row + 1), host_view(in.dy.data() + rows[row] * hidden, 1, hidden));
    }
    const ConstView gate = host_view(static_cast<const void*>(in.gate.data()), intermediate, hidden);
    const ConstView up = host_view(static_cast<const void*>(in.up.data()), intermediate, hidden);
    const ConstView down = host_view(static_cast<const void*>(in.down.data()), hidden, intermediate);
    const std::int64_t held = shard.intermediate.length();
    const DType dtype = run.f32_gradients ? DType::f32 : DType::bf16;
    Matrix d_gate(held, hidden, dtype, run.strided), d_up(held, hidden, dtype, run.strided),
        d_down(hidden, held, dtype, run.strided);

    ForwardArgs forward;
    forward.x = x.view;
    forward.shards = &shards;
    forward.y = y.view;
    forward.weights = inference_plan.slice(gate, up, down);
    inference_plan.forward(forward);
    forward.y = t.view;
    forward.weights = training_plan.slice(gate, up, down);
    training_plan.forward(forward);
    BackwardArgs backward;
    backward.x = x.view;
    backward.dy = dy.view;
    backward.weights = forward.weights;
    backward.shards = &shards;
    backward.dx = dx.view;
    backward.d_gate = d_gate.view;
    backward.d_up = d_up.view;
    backward.d_down = d_down.view;
    training_plan.backward(backward);

    for (std::int64_t row = 0; row < count; ++row) {
      assembly.put("y", out.y, seen_y, hidden, rows[row], 0, y.view.slice_rows(row, row + 1), rank);
      assembly.put("training y", out.training_y, seen_t, hidden, rows[row], 0,
                   t.view.slice_rows(row, row + 1), rank);
      assembly.put("dx", out.dx, seen_dx, hidden, rows[row], 0, dx.view.slice_rows(row, row + 1), rank);
    }
    const std::int64_t begin = shard.intermediate.begin;
    const auto put_gradients = [&](auto& whole_gate, auto& whole_up, auto& whole_down) {
      assembly.put("d_gate", whole_gate, seen_gate, hidden, begin, 0, d_gate.view, rank);
      assembly.put("d_up", whole_up, seen_up, hidden, begin, 0, d_up.view, rank);
      assembly.put("d_down", whole_down, seen_down, intermediate, 0, begin, d_down.view, rank);
    };
    if (run.f32_gradients) {
      put_gradients(out.d_gate_f32, out.d_up_f32, out.d_down_f32);
    } else {
      put_gradients(out.d_gate, out.d_up, out.d_down);
    }
  };
  if (run.callbacks) {
    run_callback_world(run.layout.ranks(), body);
  } else {
    run_local(run.layout.ranks(), body);
  }
  out.replica_difference = assembly.difference;
  for (const auto* seen : {&seen_y, &seen_t, &seen_dx, &seen_gate, &seen_up, &seen_down}) {
    if (std::find(seen->begin(), seen->end(), false) != seen->end())
      out.replica_difference += " an element arrived from no rank";
  }
  return out;
}

void expect_equals_reference(const BlockRun& run, const BlockInputs& in, const reference::Outputs& expected,
                             const std::string& context) {
  const BlockOutputs got = run_block(run, in);
  const std::string what = context + ": " + describe(run) + ": ";
  const std::int64_t hidden = in.shape.hidden, intermediate = in.shape.intermediate;
  EXPECT_EQ(got.replica_difference, "") << what;
  expect_same_bits(what + "y", got.y.data(), expected.y.data(), in.tokens, hidden);
  expect_same_bits(what + "training y", got.training_y.data(), expected.y.data(), in.tokens, hidden);
  expect_same_bits(what + "dx", got.dx.data(), expected.dx.data(), in.tokens, hidden);
  if (run.f32_gradients) {
    expect_same_bits(what + "d_gate", got.d_gate_f32.data(), expected.d_gate_f32.data(), intermediate,
                     hidden);
    expect_same_bits(what + "d_up", got.d_up_f32.data(), expected.d_up_f32.data(), intermediate, hidden);
    expect_same_bits(what + "d_down", got.d_down_f32.data(), expected.d_down_f32.data(), hidden,
                     intermediate);
  } else {
    expect_same_bits(what + "d_gate", got.d_gate.data(), expected.d_gate.data(), intermediate, hidden);
    expect_same_bits(what + "d_up", got.d_up.data(), expected.d_up.data(), intermediate, hidden);
    expect_same_bits(what + "d_down", got.d_down.data(), expected.d_down.data(), hidden, intermediate);
  }
}

}  // namespace samebits::test
