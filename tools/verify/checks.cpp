#include "verify/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "block/source.hpp"
#include "block/staging.hpp"
#include "reference/golden.hpp"
#include "reference/reference.hpp"
#include "samebits/digest.hpp"
#include "samebits/plan.hpp"

namespace samebits::tools {
namespace {

using numerics::Bf16;

// `wanted` indices spread over [0, count), both ends among them.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t wanted) {
  std::vector<std::int64_t> indices;
  const std::int64_t taken = std::min(count, wanted);
  const std::int64_t gaps = std::max<std::int64_t>(1, taken - 1), last = count - 1;
  for (std::int64_t i = 0; i < taken; ++i) indices.push_back(last / gaps * i + last % gaps * i / gaps);
  return indices;
}

// Rows of the batch without the others, at TP1, against what the batch gave them.
class RowsAlone {
 public:
  RowsAlone(const Compute& compute, const BlockCase& block, const BlockTensors& exact)
      : compute_(compute),
        block_(block),
        exact_(exact),
        engine_(compute.make_engine(compute.threads)),
        weights_(compute.device_engine),
        gate_(weights_.input(block.gate)),
        up_(weights_.input(block.up)),
        down_(weights_.input(block.down)) {}

  Plan plan(std::int64_t most_tokens, bool backward) const {
    PlanOptions options = compute_.plan_options(block_.shape, most_tokens, {}, backward);
    options.engine = engine_;
    return Plan(options);
  }

  // Elements of y that differ.
  std::int64_t output(Plan& plan, Interval rows) {
    Staging staging(compute_.device_engine);
    HostTensor y(rows.length(), block_.shape.hidden);
    y.poison();
    ForwardArgs args;
    args.x = staging.input(block_.x.slice_rows(rows.begin, rows.end));
    args.y = staging.output(y.view());
    args.weights = plan.slice(gate_, up_, down_);
    args.tokens = rows.length();
    args.queue = staging.queue();
    plan.forward(args);
    staging.fetch(y.view(), args.y);
    return count_differing(y.view(), exact_.view(kOutput).slice_rows(rows.begin, rows.end));
  }

  // Of dx, after output() of the same rows.
  std::int64_t d_hidden(Plan& plan, Interval rows) {
    Staging staging(compute_.device_engine);
    HostTensor dx(rows.length(), block_.shape.hidden);
    dx.poison();
    BackwardArgs args;
    args.x = staging.input(block_.x.slice_rows(rows.begin, rows.end));
    args.dy = staging.input(block_.dy.slice_rows(rows.begin, rows.end));
    args.weights = plan.slice(gate_, up_, down_);
    args.dx = staging.output(dx.view());
    args.tokens = rows.length();
    args.queue = staging.queue();
    plan.backward(args);
    staging.fetch(dx.view(), args.dx);
    return count_differing(dx.view(), exact_.view(kHiddenGradient).slice_rows(rows.begin, rows.end));
  }

 private:
  const Compute& compute_;
  const BlockCase& block_;
  const BlockTensors& exact_;
  std::shared_ptr<engine::Engine> engine_;
  Staging weights_;
  ConstView gate_, up_, down_;
};

}  // namespace

RowCheck check_rows(const Compute& compute, const BlockCase& block, const BlockTensors& exact) {
  constexpr std::int64_t kRows = 8;
  RowsAlone alone(compute, block, exact);
  Plan serving = alone.plan(1, false);             // made for one token
  Plan training = alone.plan(block.tokens, true);  // made for the batch, called with one row of it
  RowCheck check;
  for (const std::int64_t row : spread(block.tokens, kRows)) {
    const Interval one{row, row + 1};
    for (Plan* plan : {&serving, &training}) check.output += alone.output(*plan, one);
    check.d_hidden += alone.d_hidden(training, one);
    ++check.rows;
  }
  return check;
}

std::vector<BatchCheck> check_batches(const Compute& compute, const BlockCase& block,
                                      const BlockTensors& exact, const std::vector<std::int64_t>& batches) {
  std::vector<BatchCheck> checks;
  if (batches.empty()) return checks;
  RowsAlone alone(compute, block, exact);
  for (const std::int64_t tokens : batches) {
    Plan plan = alone.plan(tokens, true);
    const std::int64_t output = alone.output(plan, {0, tokens});
    checks.push_back({tokens, output, alone.d_hidden(plan, {0, tokens})});
  }
  return checks;
}

int GoldenCheck::differing() const {
  return static_cast<int>(
      std::count_if(tensors.begin(), tensors.end(), [](auto& t) { return t.digest != t.expected; }));
}

namespace {

constexpr Bf16 kOne = 0x3F80;

std::string hex(const std::vector<Bf16>& values) { return fmt::format("{:04x}", fmt::join(values, "")); }

std::vector<Bf16> first_row_or_col(const ConstView& view) {
  const auto* const data = static_cast<const Bf16*>(view.data);
  return {data, data + view.rows * view.cols};
}

// One token of ones through a block of hidden size 1: d_gate is dG itself.
GoldenCheck::Tensor check_contraction(const Compute& compute) {
  std::vector<Bf16> gate, up, down, expected;
  for (const auto& canary : reference::kContractionCanaries) {
    gate.push_back(canary.gate);
    up.push_back(canary.up);
    down.push_back(canary.d_act);
    expected.push_back(canary.d_gate);
  }
  const auto count = static_cast<std::int64_t>(gate.size());
  const ConstView one = host_view(static_cast<const void*>(&kOne), 1, 1);
  const auto view = [](const std::vector<Bf16>& data, std::int64_t rows, std::int64_t cols) {
    return host_view(static_cast<const void*>(data.data()), rows, cols);
  };
  const BlockCase block{{1, count},          1, one, one, view(gate, count, 1), view(up, count, 1),
                        view(down, 1, count)};
  BlockTensors tensors(block.shape, 1, DType::bf16);
  run_layout(compute, block, {}, tensors);
  return {"contraction", hex(expected), hex(first_row_or_col(tensors.view(kGateGradient)))};
}

// Gate and up are 1, so y is a bf16 near 0.73 times the subnormal weights of the down projection.
GoldenCheck::Tensor check_subnormals(const Compute& compute) {
  std::vector<Bf16> down, expected;
  for (const auto& canary : reference::kSubnormalCanaries) {
    down.push_back(canary.down);
    expected.push_back(canary.y);
  }
  const auto count = static_cast<std::int64_t>(down.size());
  std::vector<Bf16> x(down.size()), ones(down.size(), kOne);
  x[0] = kOne;
  const auto view = [](const std::vector<Bf16>& data, std::int64_t rows, std::int64_t cols) {
    return host_view(static_cast<const void*>(data.data()), rows, cols);
  };
  const BlockCase block{{count, 1},           1,
                        view(x, 1, count),    view(x, 1, count),
                        view(ones, 1, count), view(ones, 1, count),
                        view(down, count, 1)};
  BlockTensors tensors(block.shape, 1, DType::bf16);
  run_layout(compute, block, {}, tensors);
  return {"subnormals", hex(expected), hex(first_row_or_col(tensors.view(kOutput)))};
}

}  // namespace

GoldenCheck check_golden(const Compute& compute) {
  GoldenCheck check;
  check.tensors.push_back(check_subnormals(compute));
  if (compute.contract.swiglu == Swiglu::one) check.tensors.push_back(check_contraction(compute));
  const auto golden =
      std::find_if(reference::kGolden.begin(), reference::kGolden.end(),
                   [&](const auto& entry) { return parse_contract(entry.contract) == compute.contract; });
  check.has_digests = golden != reference::kGolden.end();
  if (!check.has_digests) return check;

  const Shape shape = reference::kGoldenShape;
  const LayerWeights weights = seeded_weights(shape, reference::kGoldenSeed, 1);
  const HostTensor x =
      seeded_tokens(SeededTensor::x, shape, reference::kGoldenTokens, reference::kGoldenSeed, 1);
  const HostTensor dy =
      seeded_tokens(SeededTensor::dy, shape, reference::kGoldenTokens, reference::kGoldenSeed, 1);
  BlockCase block{shape,       reference::kGoldenTokens, x.view(), dy.view(), weights.gate, weights.up,
                  weights.down};

  BlockTensors tensors(shape, block.tokens, DType::bf16);
  run_layout(compute, block, {}, tensors);
  const auto add = [&](const char* name, std::string_view expected, const ConstView& tensor) {
    check.tensors.push_back({name, std::string(expected), digest(tensor)});
  };
  add("y", golden->y, tensors.view(kTrainingOutput));
  add("dx", golden->dx, tensors.view(kHiddenGradient));
  add("d_gate", golden->d_gate, tensors.view(kGateGradient));
  add("d_up", golden->d_up, tensors.view(kUpGradient));
  add("d_down", golden->d_down, tensors.view(kDownGradient));
  block.gradients = DType::f32;
  BlockTensors wide(shape, block.tokens, DType::f32);
  run_layout(compute, block, {}, wide);
  add("d_gate_f32", golden->d_gate_f32, wide.view(kGateGradient));
  add("d_down_f32", golden->d_down_f32, wide.view(kDownGradient));
  return check;
}

std::int64_t ReferenceCheck::differing() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.differing;
  return sum;
}

std::optional<ReferenceCheck> check_reference(const Compute& compute, const BlockCase& block,
                                              const BlockTensors& exact) {
  if (block.tokens == 0) return std::nullopt;
  const auto [hidden, intermediate] = block.shape;
  // In products: the token costs 6 H I, a row of the gradients 6 M H. The rows may cost as much as the token,
  // or little.
  constexpr double kLittle = 1e8;
  const double token_cost = 6.0 * static_cast<double>(hidden) * static_cast<double>(intermediate);
  const double row_cost = 6.0 * static_cast<double>(block.tokens) * static_cast<double>(hidden);
  const auto affordable =
      static_cast<std::int64_t>(std::clamp(std::max(token_cost, kLittle) / row_cost, 1.0, 8.0));
  ReferenceCheck check;
  check.token = block.tokens / 2;
  check.rows = spread(intermediate, affordable);

  const auto bf16 = [](const ConstView& view) { return static_cast<const Bf16*>(view.data); };
  const reference::Inputs inputs{block.shape,      block.tokens,   bf16(block.x),   bf16(block.dy),
                                 bf16(block.gate), bf16(block.up), bf16(block.down)};
  const reference::Trees trees = reference::trees_of(compute.contract, block.shape, block.tokens);
  const reference::Samples samples = reference::evaluate_samples(compute.contract, trees, inputs, check.token,
                                                                 check.rows, true, compute.threads);

  // element(i) of the exact tensor against sample i.
  const auto add = [&](const char* name, const std::vector<Bf16>& expected, const ConstView& tensor,
                       const auto& place) {
    ReferenceCheck::Tensor counted{name, static_cast<std::int64_t>(expected.size()), 0};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto [row, col] = place(static_cast<std::int64_t>(i));
      const std::int64_t at = row * tensor.row_stride + col;
      const Bf16 value = tensor.dtype == DType::f32
                             ? numerics::round_bf16(static_cast<const float*>(tensor.data)[at])
                             : static_cast<const Bf16*>(tensor.data)[at];
      counted.differing += value != expected[i];
    }
    check.tensors.push_back(counted);
  };
  const std::int64_t columns = hidden;
  const auto of_token = [&](std::int64_t i) { return std::pair{check.token, i}; };
  const auto of_row = [&](std::int64_t i) {
    return std::pair{check.rows[static_cast<std::size_t>(i / columns)], i % columns};
  };
  const auto of_column = [&](std::int64_t i) {
    return std::pair{i % columns, check.rows[static_cast<std::size_t>(i / columns)]};
  };
  add("output", samples.y, exact.view(kOutput), of_token);
  add("d_hidden", samples.dx, exact.view(kHiddenGradient), of_token);
  add("d_gate", samples.d_gate, exact.view(kGateGradient), of_row);
  add("d_up", samples.d_up, exact.view(kUpGradient), of_row);
  add("d_down", samples.d_down, exact.view(kDownGradient), of_column);
  return check;
}

}  // namespace samebits::tools
