// Digests and recordings that others made, reproduced by the engine on every layout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reference/golden.hpp"
#include "samebits/digest.hpp"
#include "samebits/safetensors.hpp"
#include "samebits/seeded.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kLayouts = {"tp1",        "tp2", "tp2+sp",  "tp4",        "tp2+cp2",
                                           "tp2+cp2+sp", "tp8", "tp4+cp2", "tp4+cp2+sp", "tp3+cp2"};

std::vector<std::uint16_t> seeded(SeededTensor tensor, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint16_t> data(static_cast<std::size_t>(rows * cols));
  fill_seeded(host_view(data.data(), rows, cols), {reference::kGoldenSeed, tensor, cols, 0, 0});
  return data;
}

template <class T>
std::string digest_of(const std::vector<T>& data, std::int64_t rows, std::int64_t cols) {
  return digest(host_view(static_cast<const void*>(data.data()), rows, cols,
                          sizeof(T) == 4 ? DType::f32 : DType::bf16));
}

using Recorded = OnEngine;
INSTANTIATE_TEST_SUITE_P(, Recorded, every_engine(), engine_name);

TEST_P(Recorded, GoldenDigestsOnEveryLayout) {
  const Shape shape = reference::kGoldenShape;
  const std::int64_t tokens = reference::kGoldenTokens, hidden = shape.hidden,
                     intermediate = shape.intermediate;
  BlockInputs in{shape, tokens, {}, {}, {}, {}, {}};
  in.x = seeded(SeededTensor::x, tokens, hidden);
  in.dy = seeded(SeededTensor::dy, tokens, hidden);
  in.gate = seeded(SeededTensor::gate, intermediate, hidden);
  in.up = seeded(SeededTensor::up, intermediate, hidden);
  in.down = seeded(SeededTensor::down, hidden, intermediate);
  for (const reference::Golden& golden : reference::kGolden) {
    for (const std::string& layout : kLayouts) {
      BlockRun run;
      run.contract = parse_contract(golden.contract);
      run.engine = engine();
      run.layout = parse_layout(layout);
      run.split = layout == "tp3+cp2" ? TokenSplit::zigzag : TokenSplit::contiguous;
      const BlockOutputs bf16 = run_block(run, in);
      run.f32_gradients = true;
      const BlockOutputs f32 = run_block(run, in);
      const std::string what = fmt::format("{} on {}", golden.contract, layout);
      EXPECT_EQ(bf16.problem, "") << what;
      EXPECT_EQ(digest_of(bf16.y, tokens, hidden), golden.y) << what;
      EXPECT_EQ(digest_of(bf16.training_y, tokens, hidden), golden.y) << what;
      EXPECT_EQ(digest_of(bf16.dx, tokens, hidden), golden.dx) << what;
      EXPECT_EQ(digest_of(bf16.d_gate, intermediate, hidden), golden.d_gate) << what;
      EXPECT_EQ(digest_of(bf16.d_up, intermediate, hidden), golden.d_up) << what;
      EXPECT_EQ(digest_of(bf16.d_down, hidden, intermediate), golden.d_down) << what;
      EXPECT_EQ(digest_of(f32.d_gate_f32, intermediate, hidden), golden.d_gate_f32) << what;
      EXPECT_EQ(digest_of(f32.d_down_f32, hidden, intermediate), golden.d_down_f32) << what;
    }
  }
}

constexpr const char* kGate = "model.layers.0.mlp.gate_proj.weight";
constexpr const char* kUp = "model.layers.0.mlp.up_proj.weight";
constexpr const char* kDown = "model.layers.0.mlp.down_proj.weight";

// What unmodified PyTorch returned on an H200: Hugging Face's Qwen3MLP, output and four gradients.
TEST_P(Recorded, HuggingFaceOnAnH200OnEveryLayout) {
  const auto file = SafetensorsFile::open(SAMEBITS_FIXTURES "/hf_qwen3mlp_h200.safetensors");
  const auto tensor = [&](const char* name) {
    const HostMatrix matrix = file.matrix(name);
    std::vector<std::uint16_t> data(static_cast<std::size_t>(matrix.view.elements()));
    std::memcpy(data.data(), matrix.view.data, data.size() * 2);
    return data;
  };
  const ConstView x = file.matrix("x").view, gate = file.matrix(kGate).view;
  const std::int64_t tokens = x.rows, hidden = gate.cols, intermediate = gate.rows;
  const BlockInputs in{{hidden, intermediate}, tokens,      tensor("x"),  tensor("dy"),
                       tensor(kGate),          tensor(kUp), tensor(kDown)};
  for (const std::string& layout : kLayouts) {
    BlockRun run;
    run.contract = parse_contract("hf-sm90-v1");
    run.engine = engine();
    run.layout = parse_layout(layout);
    const BlockOutputs got = run_block(run, in);
    EXPECT_EQ(got.problem, "") << layout;
    const auto expect = [&](const char* name, const std::vector<std::uint16_t>& ours, std::int64_t rows,
                            std::int64_t cols) {
      expect_same_bits(layout + " " + name, ours.data(), tensor(name).data(), rows, cols, NaNs::any);
    };
    expect("y", got.y, tokens, hidden);
    expect("y", got.training_y, tokens, hidden);
    expect("dx", got.dx, tokens, hidden);
    expect("d_gate", got.d_gate, intermediate, hidden);
    expect("d_up", got.d_up, intermediate, hidden);
    expect("d_down", got.d_down, hidden, intermediate);
  }
}

}  // namespace
}  // namespace samebits::test
