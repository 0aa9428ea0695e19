// Operands as callers hold them on a GPU: strides of every kind, offsets beyond 31 bits, addresses of 2
// bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/device.hpp"
#include "support/engine_plan.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"};

using CudaViews = OnCuda;

std::vector<std::uint16_t> transposed(const std::vector<std::uint16_t>& from, std::int64_t rows,
                                      std::int64_t cols) {
  std::vector<std::uint16_t> to(from.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col)
      to[static_cast<std::size_t>(col * rows + row)] = from[static_cast<std::size_t>(row * cols + col)];
  }
  return to;
}

// The same matrix with rows and columns told the other way round.
template <class V>
V turned(V view) {
  std::swap(view.rows, view.cols);
  std::swap(view.row_stride, view.col_stride);
  return view;
}

// Each operand and result in turn lies column by column.
TEST_F(CudaViews, ColumnsThatLieTogether) {
  Random random(41);
  for (const std::string& text : kContracts) {
    for (const Shape shape : {Shape{128, 192}, Shape{33, 47}}) {
      const std::int64_t h = shape.hidden, i = shape.intermediate, tokens = 65;
      const Contract contract = parse_contract(text);
      const BlockInputs in = random_inputs(random, Values::normal, shape, tokens);
      const BlockOutputs expected = cpu_outputs(contract, in, false);
      engine::Engine& engine = *cuda_engine();
      const auto column_major = [&](const std::vector<std::uint16_t>& data, std::int64_t rows,
                                    std::int64_t cols) {
        Matrix matrix(engine, cols, rows, DType::bf16);
        matrix.write(transposed(data, rows, cols).data());
        return matrix;
      };
      const Matrix x = column_major(in.x, tokens, h), dy = column_major(in.dy, tokens, h),
                   gate = column_major(in.gate, i, h), up = column_major(in.up, i, h),
                   down = column_major(in.down, h, i);
      const Matrix y(engine, h, tokens, DType::bf16), dx(engine, h, tokens, DType::bf16),
          d_gate(engine, h, i, DType::bf16), d_down(engine, i, h, DType::bf16);
      for (int which = 0; which < 6; ++which) {
        EnginePlan block(cuda_engine(), {contract}, in);
        ForwardArgs forward = block.forward(tokens);
        BackwardArgs backward = block.backward(tokens);
        if (which == 0 || which == 5) forward.x = backward.x = turned<ConstView>(x.view());
        if (which == 1 || which == 5) backward.dy = turned<ConstView>(dy.view());
        if (which == 2 || which == 5) {
          forward.weights = block.plan.slice(turned<ConstView>(gate.view()), turned<ConstView>(up.view()),
                                             turned<ConstView>(down.view()));
          backward.weights = forward.weights;
        }
        if (which >= 3) forward.y = turned(y.view()), backward.dx = turned(dx.view());
        if (which >= 4) backward.d_gate = turned(d_gate.view()), backward.d_down = turned(d_down.view());
        block.plan.forward(forward);
        block.plan.backward(backward);
        block.wait();
        const BlockOutputs got = block.outputs();
        const std::string what = fmt::format("{} {}x{} case {} ", text, h, i, which);
        const auto result = [&](bool turned_one, const Matrix& matrix,
                                const std::vector<std::uint16_t>& plain, std::int64_t rows,
                                std::int64_t cols) {
          return turned_one ? transposed(matrix.read<std::uint16_t>(), cols, rows) : plain;
        };
        expect_same_bits(what + "y", result(which >= 3, y, got.y, tokens, h), expected.y, tokens, h);
        expect_same_bits(what + "dx", result(which >= 3, dx, got.dx, tokens, h), expected.dx, tokens, h);
        expect_same_bits(what + "d_gate", result(which >= 4, d_gate, got.d_gate, i, h), expected.d_gate, i,
                         h);
        expect_same_bits(what + "d_up", got.d_up, expected.d_up, i, h);
        expect_same_bits(what + "d_down", result(which >= 4, d_down, got.d_down, h, i), expected.d_down, h,
                         i);
      }
    }
  }
}

// One operand or result at a time lies where a fast kernel's wide loads and stores do not reach.
TEST_F(CudaViews, EachOddlyPlacedInTurn) {
  Random random(44);
  engine::Engine& engine = *cuda_engine();
  for (const std::string& text : kContracts) {
    for (const std::int64_t tokens : {17, 65, 200}) {
      const Contract contract = parse_contract(text);
      const BlockInputs in = random_inputs(random, Values::normal, {128, 192}, tokens);
      const BlockOutputs expected = cpu_outputs(contract, in, true);
      EnginePlan block(cuda_engine(), {contract, {}, true}, in);
      for (const Placement placement : {Placement{0, 1}, Placement{5, 0}, Placement{4, 0}, Placement{8, 2}}) {
        for (int which = 0; which < 10; ++which) {
          ForwardArgs forward = block.forward(tokens);
          BackwardArgs backward = block.backward(tokens);
          ConstView gate = block.gate.view(), up = block.up.view(), down = block.down.view();
          ConstView* const operands[] = {&forward.x, &backward.dy, &gate, &up, &down};
          View* const results[] = {&forward.y, &backward.dx, &backward.d_gate, &backward.d_up,
                                   &backward.d_down};
          const std::vector<std::uint16_t>* const data[] = {&in.x, &in.dy, &in.gate, &in.up, &in.down};
          const ConstView like = which < 5 ? *operands[which] : ConstView(*results[which - 5]);
          Matrix odd(engine, like.rows, like.cols, like.dtype, placement);
          if (which < 5) {
            odd.write(data[which]->data());
            *operands[which] = odd.view();
          } else {
            *results[which - 5] = odd.view();
          }
          backward.x = forward.x;
          forward.weights = backward.weights = block.plan.slice(gate, up, down);
          block.poison_results();
          block.plan.forward(forward);
          block.plan.backward(backward);
          block.wait();
          BlockOutputs got = block.outputs();
          if (which == 5) got.y = got.training_y = odd.read<std::uint16_t>();
          if (which == 6) got.dx = odd.read<std::uint16_t>();
          if (which == 7) got.d_gate_f32 = odd.read<float>();
          if (which == 8) got.d_up_f32 = odd.read<float>();
          if (which == 9) got.d_down_f32 = odd.read<float>();
          if (!odd.guards_hold()) got.problem = "written around the odd one";
          const std::string what = fmt::format("{} {} tokens, matrix {}, rows {} apart from {} ", text,
                                               tokens, which, placement.padding, placement.shift);
          expect_same_outputs(what, got, expected, in, true);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Rows so far apart that the last ones begin beyond element 2^31. Everything lies in one allocation of 17 GB,
// a column of it for each matrix.
TEST_F(CudaViews, OffsetsBeyond31Bits) {
  constexpr std::int64_t kSpread = std::int64_t{1} << 32, kCols = 64, kColumn = 1 << 16;  // elements
  engine::Engine& engine = *cuda_engine();
  const std::size_t bytes = static_cast<std::size_t>(kSpread + (std::int64_t{1} << 20)) * sizeof(float);
  if (free_device_memory() < bytes + (std::size_t{1} << 30)) {
    GTEST_SKIP() << "less than 19 GB of device memory are free";
  }
  const engine::Memory memory = engine.allocate(bytes);
  Random random(42);
  for (const std::string& text : kContracts) {
    for (const auto& [tokens, f32] : {std::pair{64, false}, std::pair{200, true}, std::pair{9, false}}) {
      const Contract contract = parse_contract(text);
      const BlockInputs in = random_inputs(random, Values::normal, {kCols, kCols}, tokens);
      check_cuda(cudaMemset(memory.get(), 0xFF, bytes));
      std::int64_t column = 0;
      const auto place = [&](std::int64_t rows, DType dtype) {
        auto* const data = static_cast<unsigned char*>(memory.get()) + column * 4;
        column += kColumn;
        return View{data, dtype, rows, kCols, kSpread / rows / 64 * 64, 1, engine.device()};
      };
      const auto upload = [&](const std::vector<std::uint16_t>& data, std::int64_t rows) {
        const View view = place(rows, DType::bf16);
        engine.copy(view, host_view(static_cast<const void*>(data.data()), rows, kCols), {});
        return view;
      };
      EnginePlan block(cuda_engine(), {contract, {}, f32}, in);
      ForwardArgs forward = block.forward(tokens);
      BackwardArgs backward = block.backward(tokens);
      forward.x = backward.x = upload(in.x, tokens);
      backward.dy = upload(in.dy, tokens);
      const View gate = upload(in.gate, kCols), up = upload(in.up, kCols), down = upload(in.down, kCols);
      forward.weights = backward.weights = block.plan.slice(gate, up, down);
      const DType dtype = f32 ? DType::f32 : DType::bf16;
      forward.y = place(tokens, DType::bf16), backward.dx = place(tokens, DType::bf16);
      backward.d_gate = place(kCols, dtype), backward.d_up = place(kCols, dtype);
      backward.d_down = place(kCols, dtype);
      block.plan.forward(forward);
      block.plan.backward(backward);
      block.wait();
      const BlockOutputs expected = cpu_outputs(contract, in, f32);
      const auto expect = [&](const char* name, const View& view, const auto& whole) {
        auto got = whole;
        engine.copy(host_view(got.data(), view.rows, kCols, view.dtype), view, {});
        expect_same_bits(fmt::format("{} {} tokens {}", text, tokens, name), got, whole, view.rows, kCols);
      };
      expect("y", forward.y, expected.y);
      expect("dx", backward.dx, expected.dx);
      if (f32) {
        expect("d_gate", backward.d_gate, expected.d_gate_f32);
        expect("d_up", backward.d_up, expected.d_up_f32);
        expect("d_down", backward.d_down, expected.d_down_f32);
      } else {
        expect("d_gate", backward.d_gate, expected.d_gate);
        expect("d_up", backward.d_up, expected.d_up);
        expect("d_down", backward.d_down, expected.d_down);
      }
    }
  }
}

// Activations of 2^32 elements in the plan's own buffers. The tokens repeat with the period of a leaf: rows
// repeat with it, and a gradient is the sum of 2^11 equal nodes, which is exact.
TEST_F(CudaViews, ActivationsOfMoreThan31Bits) {
  constexpr std::int64_t kHidden = 8, kIntermediate = 2048, kPeriod = 1024, kPeriods = 2048;
  constexpr std::int64_t kTokens = kPeriod * kPeriods;
  if (free_device_memory() < (std::size_t{50} << 30))
    GTEST_SKIP() << "less than 50 GB of device memory are free";
  Random random(43);
  for (const std::string text : {"f32-tree-v1,T=block:1024", "sm90-v1,T=block:1024"}) {
    const BlockInputs few = random_inputs(random, Values::normal, {kHidden, kIntermediate}, kPeriod);
    BlockInputs many = few;
    many.tokens = kTokens;
    many.x.resize(static_cast<std::size_t>(kTokens * kHidden));
    many.dy.resize(many.x.size());
    for (std::size_t at = 0; at < many.x.size(); ++at) {
      many.x[at] = few.x[at % few.x.size()];
      many.dy[at] = few.dy[at % few.dy.size()];
    }
    BlockOutputs expected = cpu_outputs(parse_contract(text), few, true);
    for (auto* result : {&expected.y, &expected.training_y, &expected.dx}) {
      const std::vector<std::uint16_t> period = *result;
      result->resize(many.x.size());
      for (std::size_t at = 0; at < result->size(); ++at) (*result)[at] = period[at % period.size()];
    }
    for (auto* gradient : {&expected.d_gate_f32, &expected.d_up_f32, &expected.d_down_f32}) {
      for (float& value : *gradient) value *= static_cast<float>(kPeriods);
    }
    EnginePlan block(cuda_engine(), {parse_contract(text), {}, true}, many);
    block.run(kTokens);
    expect_same_outputs(text + " ", block.outputs(), expected, many, true);
  }
}

}  // namespace
}  // namespace samebits::test
