// The activation and its gradient on the device, for all 65,536 gates: what a block of one hidden unit
// computes, and what the kernels that fuse the activation into a contraction do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "numerics/bf16.hpp"
#include "numerics/leaf.hpp"
#include "numerics/sigma.hpp"
#include "numerics/swiglu.hpp"
#include "support/device.hpp"
#include "support/engine_plan.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

constexpr std::int64_t kGates = 65536;
constexpr std::uint16_t kOne = 0x3F80;

// A contraction whose first product is value * 1 and whose others are zero: the value, but for the zero that
// it starts at and for NaNs, which are canonical.
std::uint16_t through_a_contraction(std::uint16_t value) {
  return value == 0x8000 ? std::uint16_t{0} : numerics::round_bf16(numerics::widen(value));
}

using CudaActivation = OnCuda;

// Each row of x and dy is (1, 0, 0, ...), so that G, U and dA are the first columns of the weights.
TEST_F(CudaActivation, EveryGateUnderEveryKind) {
  Random random(51);
  for (const std::string text :
       {"bf16-tree-v1", "f32-tree-v1", "f32-tree-v1,swiglu=two,sigma=cuda", "f32-tree-v1,sigma=cuda",
        "sm90-v1", "hf-sm90-v1", "hf-sm90-v1,sigma=exact"}) {
    const Contract contract = parse_contract(text);
    for (const auto& [hidden, tokens] :
         {std::pair{1, 1}, std::pair{1, 65}, std::pair{64, 1}, std::pair{64, 130}}) {
      for (const Values kind : {Values::normal, Values::raw}) {
        BlockInputs in{{hidden, kGates}, tokens, {}, {}, {}, {}, {}};
        in.x.assign(static_cast<std::size_t>(tokens * hidden), 0);
        in.gate.assign(static_cast<std::size_t>(kGates * hidden), 0);
        in.up = in.gate, in.down = in.gate;
        for (std::int64_t row = 0; row < tokens; ++row) in.x[static_cast<std::size_t>(row * hidden)] = kOne;
        in.dy = in.x;
        for (std::int64_t i = 0; i < kGates; ++i) {
          in.gate[static_cast<std::size_t>(i * hidden)] = static_cast<std::uint16_t>(i);
          in.up[static_cast<std::size_t>(i * hidden)] =
              random_bf16(random, kind, static_cast<std::size_t>(i));
          in.down[static_cast<std::size_t>(i)] = random_bf16(random, kind, static_cast<std::size_t>(i));
        }
        EnginePlan block(cuda_engine(), {contract}, in);
        engine::Engine& engine = *cuda_engine();
        const Matrix gate(engine, tokens, kGates, DType::bf16), up(engine, tokens, kGates, DType::bf16),
            act(engine, tokens, kGates, DType::bf16);
        ForwardArgs forward = block.forward(tokens);
        forward.saved = {gate.view(), up.view(), act.view()};
        BackwardArgs backward = block.backward(tokens);
        backward.saved = forward.saved;
        block.plan.forward(forward);
        block.plan.backward(backward);
        block.wait();

        std::vector<std::uint16_t> g(kGates), u(kGates), a(kGates), d_gate(kGates), d_up(kGates);
        for (std::size_t i = 0; i < kGates; ++i) {
          g[i] = through_a_contraction(static_cast<std::uint16_t>(i));
          u[i] = through_a_contraction(in.up[i * static_cast<std::size_t>(hidden)]);
          const float s = numerics::sigma(contract.sigma, g[i]);
          a[i] = numerics::swiglu(contract.swiglu, g[i], u[i], s);
          const auto d =
              numerics::swiglu_gradient(contract.swiglu, through_a_contraction(in.down[i]), g[i], u[i], s);
          d_gate[i] = d.gate, d_up[i] = d.up;
        }
        const std::string what =
            fmt::format("{} hidden {} tokens {} {} ", text, hidden, tokens, name_of(kind));
        const auto expect_rows = [&](const char* name, const Matrix& matrix,
                                     const std::vector<std::uint16_t>& row) {
          const std::vector<std::uint16_t> got = matrix.read<std::uint16_t>();
          for (std::int64_t t = 0; t < tokens; ++t)
            expect_same_bits(what + name, got.data() + t * kGates, row.data(), 1, kGates);
          EXPECT_TRUE(matrix.guards_hold()) << what << name;
        };
        expect_rows("G", gate, g);
        expect_rows("U", up, u);
        expect_rows("A", act, a);
        if (tokens > 1) continue;
        // One token: the gradients of its weights are dG and dU, times one.
        const BlockOutputs got = block.outputs();
        std::vector<std::uint16_t> got_gate(kGates), got_up(kGates);
        for (std::size_t i = 0; i < kGates; ++i) {
          got_gate[i] = got.d_gate[i * static_cast<std::size_t>(hidden)];
          got_up[i] = got.d_up[i * static_cast<std::size_t>(hidden)];
          d_gate[i] = through_a_contraction(d_gate[i]), d_up[i] = through_a_contraction(d_up[i]);
        }
        expect_same_bits(what + "dG", got_gate, d_gate, 1, kGates);
        expect_same_bits(what + "dU", got_up, d_up, 1, kGates);
      }
    }
  }
}

// The other arithmetic that kernels do in a way of their own: two bf16 nodes merged with one rounding.
TEST_F(CudaActivation, PackedSumsAreNodes) {
  const PackedSums sums = check_packed_sums();
  EXPECT_EQ(sums.wrong, 0u) << fmt::format("for instance 0x{:04x} + 0x{:04x}", sums.pair & 0xFFFFu,
                                           sums.pair >> 16);
}

}  // namespace
}  // namespace samebits::test
