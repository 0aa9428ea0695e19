// Checkpoints that are legal: every way in which the three weights may be stored and named.
#include "samebits/checkpoint.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "unit/io/checkpoint_folder.hpp"

namespace samebits {
namespace {

using test::CheckpointFolder;
using test::mlp;
using test::operator+;
using test::RawTensor;
using test::ShardedFolder;

std::uint16_t at(const ConstView& view, std::int64_t row, std::int64_t col) {
  return static_cast<const std::uint16_t*>(view.data)[row * view.row_stride + col * view.col_stride];
}

void expect_counted(const LayerWeights& layer) {
  EXPECT_EQ(layer.shape, (Shape{4, 6}));
  for (const ConstView* view : {&layer.gate, &layer.up}) {
    ASSERT_EQ(view->rows, 6);
    ASSERT_EQ(view->cols, 4);
  }
  ASSERT_EQ(layer.down.rows, 4);
  ASSERT_EQ(layer.down.cols, 6);
  EXPECT_EQ(at(layer.gate, 5, 3), 24);
  EXPECT_EQ(at(layer.up, 1, 0), 5);
  EXPECT_EQ(at(layer.down, 1, 0), 7);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(layer.gate.data) % 2, 0u);
}

TEST(Checkpoint, SingleFile) {
  const CheckpointFolder folder(mlp("model.layers.0.mlp") + mlp("model.layers.1.mlp"));
  const LayerWeights layer = load_layer(folder.path(), 1);
  expect_counted(layer);
  EXPECT_EQ(layer.conversion, "");
  EXPECT_EQ(layer.source, folder.path() + ", model.layers.1.mlp");
}

TEST(Checkpoint, OddAddresses) {
  for (std::size_t padding = 0; padding < 4; ++padding) {
    const CheckpointFolder folder(mlp("model.layers.0.mlp"), test::kConfig, padding);
    expect_counted(load_layer(folder.path(), 0));
  }
}

TEST(Checkpoint, WeightsOutliveFolderAndCopies) {
  LayerWeights kept;
  {
    const CheckpointFolder folder(mlp("model.layers.0.mlp"));
    const LayerWeights layer = load_layer(folder.path(), 0);
    kept = layer;
  }
  expect_counted(kept);
}

TEST(Checkpoint, Shards) {
  const auto layer = mlp("model.layers.0.mlp");
  const ShardedFolder folder(R"({"model.layers.0.mlp.gate_proj.weight":"s0",)"
                             R"("model.layers.0.mlp.up_proj.weight":"s1",)"
                             R"("model.layers.0.mlp.down_proj.weight":"s0",)"
                             R"("model.embed_tokens.weight":"never-downloaded"})",
                             {{layer[0], layer[2]}, {layer[1]}});
  expect_counted(load_layer(folder.path(), 0));
}

TEST(Checkpoint, OtherPrefixes) {
  for (const std::string& prefix :
       {std::string("model.language_model."), std::string("language_model.model."),
        std::string("transformer.decoder."), std::string()}) {
    const CheckpointFolder folder(mlp(prefix + "layers.10.mlp"));
    expect_counted(load_layer(folder.path(), 10));
  }
}

TEST(Checkpoint, KnownPrefixesWinOverOthers) {
  for (const std::string& prefix : {std::string("model."), std::string("model.language_model.")}) {
    const CheckpointFolder folder(mlp("mtp.layers.0.mlp") + mlp("audio.layers.0.mlp") +
                                  mlp(prefix + "layers.0.mlp"));
    EXPECT_EQ(load_layer(folder.path(), 0).source, folder.path() + ", " + prefix + "layers.0.mlp");
  }
}

TEST(Checkpoint, VisionTowersAreNoCandidates) {
  const CheckpointFolder folder(
      mlp("llm.layers.0.mlp") +
      std::vector<RawTensor>{test::raw_tensor("vision.layers.0.mlp.fc1.weight", {2, 2}),
                             test::raw_tensor("vision.layers.0.mlp.fc1.bias", {2})});
  expect_counted(load_layer(folder.path(), 0));
}

TEST(Checkpoint, Configurations) {
  for (
      const char* config :
      {"{}", R"({"hidden_act":"swish"})", R"({"model_type":"qwen2","mlp_bias":false,"num_experts":0})",
       R"({"model_type":"some_vl","text_config":{"hidden_act":"silu","hidden_size":4,"intermediate_size":6},)"
       R"("hidden_size":999,"vision_config":{"hidden_act":"gelu","hidden_size":7}})",
       R"({"quantization_config":null,"num_local_experts":null})"}) {
    const CheckpointFolder folder(mlp("model.layers.0.mlp"), config);
    expect_counted(load_layer(folder.path(), 0));
  }
}

TEST(Checkpoint, F32IsRoundedAndSaidSo) {
  auto tensors = mlp("model.layers.0.mlp", "F32", 4);
  const std::uint32_t values[] = {0x3F808000u, 0x3F818000u, 0x3F808001u,
                                  0xFF800001u, 0x00008001u, 0x7F7FFFFFu};
  std::memcpy(tensors[0].bytes.data(), values, sizeof values);
  for (std::size_t padding = 0; padding < 4; ++padding) {
    const CheckpointFolder folder(tensors, test::kConfig, padding);
    const LayerWeights layer = load_layer(folder.path(), 0);
    EXPECT_EQ(layer.conversion, "F32 rounded to nearest even bf16");
    EXPECT_EQ(layer.gate.dtype, DType::bf16);
    const std::uint16_t expected[] = {0x3F80, 0x3F82, 0x3F81, 0x7FC0, 0x0001, 0x7F80};
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(at(layer.gate, i / 4, i % 4), expected[i]) << i;
  }
}

TEST(Checkpoint, F16IsRoundedAndSaidSo) {
  auto tensors = mlp("model.layers.0.mlp", "F16", 2);
  const std::uint16_t values[] = {0x3C00, 0x3C04, 0x3C0C, 0x7E01, 0x0001, 0x8000};
  std::memcpy(tensors[1].bytes.data(), values, sizeof values);
  const CheckpointFolder folder(tensors);
  const LayerWeights layer = load_layer(folder.path(), 0);
  EXPECT_EQ(layer.conversion, "F16 rounded to nearest even bf16");
  const std::uint16_t expected[] = {0x3F80, 0x3F80, 0x3F82, 0x7FC0, 0x3380, 0x8000};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(at(layer.up, i / 4, i % 4), expected[i]) << i;
}

}  // namespace
}  // namespace samebits
