// hf-sm90-v1 by the reference against what Hugging Face's Qwen3MLP, in stock PyTorch, returned on an H200:
// 512 tokens, H 256, I 768, forward and backward, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "reference/reference.hpp"
#include "samebits/safetensors.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

using reference::Bf16;

class HuggingFace : public testing::Test {
 protected:
  HuggingFace()
      : file_(SafetensorsFile::open(std::string(SAMEBITS_FIXTURES) + "/hf_qwen3mlp_h200.safetensors")) {}

  static constexpr Shape kShape{256, 768};
  static constexpr std::int64_t kTokens = 512;

  const Bf16* tensor(const char* name, std::int64_t rows, std::int64_t cols) {
    const HostMatrix& matrix = matrices_.emplace_back(file_.matrix(name));
    EXPECT_TRUE(matrix.view.rows == rows && matrix.view.cols == cols && matrix.view.dtype == DType::bf16)
        << name;
    return static_cast<const Bf16*>(matrix.view.data);
  }
  reference::Inputs inputs() {
    const auto [H, I] = kShape;
    return {kShape,
            kTokens,
            tensor("x", kTokens, H),
            tensor("dy", kTokens, H),
            tensor("model.layers.0.mlp.gate_proj.weight", I, H),
            tensor("model.layers.0.mlp.up_proj.weight", I, H),
            tensor("model.layers.0.mlp.down_proj.weight", H, I)};
  }
  static int threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

 private:
  SafetensorsFile file_;
  std::vector<HostMatrix> matrices_;
};

TEST_F(HuggingFace, EveryElementIsTheSame) {
  const auto [H, I] = kShape;
  const Contract contract = parse_contract("hf-sm90-v1");
  const auto trees = reference::trees_of(contract, kShape, kTokens);
  const reference::Outputs out = reference::evaluate(contract, trees, inputs(), true, threads());
  expect_same_bits("y", out.y.data(), tensor("y", kTokens, H), kTokens, H, NaNs::any);
  expect_same_bits("dx", out.dx.data(), tensor("dx", kTokens, H), kTokens, H, NaNs::any);
  expect_same_bits("d_gate", out.d_gate.data(), tensor("d_gate", I, H), I, H, NaNs::any);
  expect_same_bits("d_up", out.d_up.data(), tensor("d_up", I, H), I, H, NaNs::any);
  expect_same_bits("d_down", out.d_down.data(), tensor("d_down", H, I), H, I, NaNs::any);
}

// The control: each field of the contract matters here, seen in y and dx of some tokens and in some rows of
// the gradients. Where only an f32 sum is cut elsewhere, few bf16 elements show it, so more of them are asked
// for.
TEST_F(HuggingFace, OtherContractsShow) {
  const auto [H, I] = kShape;
  const reference::Inputs block = inputs();
  const Bf16 *const y = tensor("y", kTokens, H), *const dx = tensor("dx", kTokens, H);
  const Bf16 *const d_gate = tensor("d_gate", I, H), *const d_up = tensor("d_up", I, H);
  const auto differing = [&, H = H](const std::string& text, std::int64_t tokens, std::int64_t rows) {
    const Contract contract = parse_contract(text);
    const auto trees = reference::trees_of(contract, kShape, kTokens);
    std::vector<std::int64_t> sampled(rows);
    for (std::int64_t r = 0; r < rows; ++r) sampled[r] = 7 * r + 5;
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t token = 9 * t + 3;
      const auto samples =
          reference::evaluate_samples(contract, trees, block, token, sampled, true, threads());
      count += count_differing(samples.y.data(), y + token * H, H, NaNs::any);
      count += count_differing(samples.dx.data(), dx + token * H, H, NaNs::any);
      for (std::int64_t r = 0; r < rows; ++r) {
        count += count_differing(&samples.d_gate[r * H], d_gate + sampled[r] * H, H, NaNs::any);
        count += count_differing(&samples.d_up[r * H], d_up + sampled[r] * H, H, NaNs::any);
      }
    }
    return count;
  };
  EXPECT_EQ(differing("hf-sm90-v1", 1, 4), 0);
  EXPECT_GT(differing("hf-sm90-v1,leaf=fma", 1, 48), 0);
  EXPECT_GT(differing("hf-sm90-v1,H=halve:1", 1, 48), 0);
  EXPECT_GT(differing("hf-sm90-v1,I=halve:1", 48, 0), 0);
  EXPECT_GT(differing("hf-sm90-v1,T=halve:1", 1, 64), 0);
  EXPECT_GT(differing("hf-sm90-v1,node=bf16,I=max:32", 1, 0), 0);
  EXPECT_GT(differing("hf-sm90-v1,lanes=f32", 1, 0), 0);
  EXPECT_GT(differing("hf-sm90-v1,swiglu=one", 1, 0), 0);
}

}  // namespace
}  // namespace samebits::test
