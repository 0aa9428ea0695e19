// Checkpoints that hold another block, or not what they claim.
#include <gtest/gtest.h>

#include "samebits/checkpoint.hpp"
#include "unit/io/checkpoint_folder.hpp"
#include "unit/io/expect_error.hpp"

namespace samebits {
namespace {

using test::CheckpointFolder;
using test::expect_bad_file;
using test::mlp;
using test::operator+;
using test::raw_tensor;
using test::RawTensor;
using test::ShardedFolder;
using test::TempFolder;

const std::string kBlock = "model.layers.0.mlp";
const char* const kLfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";

void refused(const TempFolder& folder, std::initializer_list<std::string_view> named,
             std::int64_t layer = 0) {
  expect_bad_file(named, [&] { load_layer(folder.path(), layer); });
}

TEST(CheckpointRefusals, Folders) {
  const TempFolder folder;
  expect_bad_file({"nowhere", "no such folder"}, [&] { load_layer(folder.file("nowhere"), 0); });
  refused(folder, {"config.json", "no such file"});
  folder.write("config.json", test::kConfig);
  refused(folder, {folder.path(), "model.safetensors", "model.safetensors.index.json"});
  folder.write("pytorch_model.bin", "x");
  refused(folder, {"pytorch_model.bin", "convert"});
  expect_bad_file({"config.json", "is not a folder"}, [&] { load_layer(folder.file("config.json"), 0); });
}

TEST(CheckpointRefusals, GitLfsPointers) {
  const CheckpointFolder folder(mlp(kBlock));
  folder.write("model.safetensors", kLfs);
  refused(folder, {"model.safetensors", "Git LFS pointer"});
  folder.write("config.json", kLfs);
  refused(folder, {"config.json", "Git LFS pointer"});
}

TEST(CheckpointRefusals, Configurations) {
  const auto config = [](const std::string& text, std::initializer_list<std::string_view> named) {
    SCOPED_TRACE(text.substr(0, 100));
    const CheckpointFolder folder(mlp(kBlock), text);
    expect_bad_file({"config.json"}, [&] { load_layer(folder.path(), 0); });
    expect_bad_file(named, [&] { load_layer(folder.path(), 0); });
  };
  config(R"({"hidden_act":"gelu_pytorch_tanh"})", {"hidden_act", "gelu_pytorch_tanh", "silu"});
  config(R"({"hidden_activation":"gelu"})", {"hidden_activation", "gelu"});
  config(R"({"hidden_act":["silu"]})", {"hidden_act"});
  config(R"({"model_type":"gemma3_text"})", {"gemma3_text", "hidden_act"});
  config(R"({"text_config":{"hidden_act":"relu"},"hidden_act":"silu"})", {"relu"});
  config(R"({"mlp_bias":true})", {"mlp_bias"});
  config(R"({"num_experts":128})", {"num_experts", "128", "mixture of experts"});
  config(R"({"text_config":{"num_local_experts":8}})", {"num_local_experts", "mixture of experts"});
  config(R"({"quantization_config":{"quant_method":"awq"}})", {"quantization_config", "awq"});
  config(R"({"text_config":{},"quantization_config":{}})", {"quantization_config"});
  config(R"({"hidden_size":"4"})", {"hidden_size", "above 0"});
  config(R"({"intermediate_size":0})", {"intermediate_size", "above 0"});
  config(R"({"intermediate_size":[6,6]})", {"intermediate_size", "[6,6]"});
  config(R"({"hidden_size":18446744073709551615})", {"hidden_size"});
  config("[]", {"not an object"});
  config("{", {"not JSON"});
  config("", {"not JSON"});
  config("{\"a\":1,\"a\":2}", {"'a' twice"});
  config(std::string(1'000'000, '['), {"nests deeper"});
  std::string deep;
  for (int i = 0; i < 300'000; ++i) deep += "{\"a\":";
  config(deep, {"nests deeper"});
}

TEST(CheckpointRefusals, OtherBlocks) {
  const auto with = [](const RawTensor& extra, std::initializer_list<std::string_view> named) {
    const CheckpointFolder folder(mlp(kBlock) + std::vector<RawTensor>{extra});
    expect_bad_file({"model.safetensors", extra.name}, [&] { load_layer(folder.path(), 0); });
    expect_bad_file(named, [&] { load_layer(folder.path(), 0); });
  };
  with(raw_tensor(kBlock + ".gate_proj.bias", {6}), {"bias"});
  with(raw_tensor(kBlock + ".down_proj.bias", {4}), {"bias"});
  with(raw_tensor(kBlock + ".experts.0.up_proj.weight", {6, 4}), {"mixture of experts"});
  with(raw_tensor(kBlock + ".gate_up_proj.weight", {12, 4}), {"gate_up_proj", "fused"});
  with(raw_tensor(kBlock + ".up_proj.weight_scale", {1}), {"quantised"});
  with(raw_tensor(kBlock + ".up_proj.weight_scale_inv", {1}), {"quantised"});
  with(raw_tensor(kBlock + ".up_proj.qweight", {1}), {"quantised"});
  // Another layer's are none of this layer's business.
  const CheckpointFolder folder(mlp(kBlock) +
                                std::vector<RawTensor>{raw_tensor("model.layers.1.mlp.gate_proj.bias", {6})});
  EXPECT_NO_THROW(load_layer(folder.path(), 0));
}

TEST(CheckpointRefusals, OtherBlocksWithoutTheThreeWeights) {
  refused(CheckpointFolder({raw_tensor(kBlock + ".gate_up_proj.weight", {12, 4})}), {"gate_up_proj"});
  refused(CheckpointFolder({raw_tensor(kBlock + ".experts.gate_up_proj", {2, 12, 4})}),
          {"mixture of experts"});
  refused(CheckpointFolder({raw_tensor(kBlock + ".gate_proj.qweight", {1})}), {"qweight", "quantised"});
  refused(CheckpointFolder({raw_tensor("h.0.mlp.c_fc.weight", {1})}),
          {"layers.N.mlp.gate_proj.weight", "'h.0.mlp.c_fc.weight'"});
  refused(CheckpointFolder(std::vector<RawTensor>{}), {"layers.N.mlp.gate_proj.weight", "empty"});
}

TEST(CheckpointRefusals, Dtypes) {
  refused(CheckpointFolder(mlp(kBlock, "I8", 1)), {"gate_proj.weight", "I8", "quantised"});
  refused(CheckpointFolder(mlp(kBlock, "F8_E4M3", 1)), {"gate_proj.weight", "F8_E4M3"});
  refused(CheckpointFolder(mlp(kBlock, "F64", 8)), {"gate_proj.weight", "F64", "F32"});
  auto mixed = mlp(kBlock);
  mixed[1] = raw_tensor(kBlock + ".up_proj.weight", {6, 4}, "F32", 4);
  refused(CheckpointFolder(mixed), {"up_proj.weight", "F32", "gate_proj.weight", "BF16"});
  mixed = mlp(kBlock);
  mixed[2] = raw_tensor(kBlock + ".down_proj.weight", {4, 6}, "F16");
  refused(CheckpointFolder(mixed), {"down_proj.weight", "F16", "gate_proj.weight", "BF16"});
}

TEST(CheckpointRefusals, Shapes) {
  const auto with = [](std::size_t which, const std::vector<std::int64_t>& shape, const std::string& config,
                       std::initializer_list<std::string_view> named) {
    auto tensors = mlp(kBlock);
    tensors[which] = raw_tensor(tensors[which].name, shape);
    refused(CheckpointFolder(tensors, config), named);
  };
  with(0, {4, 6}, test::kConfig,
       {"gate_proj.weight", "[4, 6]", "[I, H] = [6, 4]", "hidden_size of config.json"});
  with(1, {6, 5}, test::kConfig, {"up_proj.weight", "[6, 5]", "[I, H] = [6, 4]", "model.safetensors"});
  with(2, {6, 4}, test::kConfig, {"down_proj.weight", "[6, 4]", "[H, I] = [4, 6]"});
  with(1, {7, 4}, "{}",
       {"up_proj.weight", "[7, 4]", "[6, 4]", "that of 'model.layers.0.mlp.gate_proj.weight'"});
  with(0, {24}, "{}", {"gate_proj.weight", "[24]", "[I, H]"});
  with(0, {0, 4}, "{}", {"gate_proj.weight", "[0, 4]"});
  with(2, {4, 6, 1}, "{}", {"down_proj.weight", "[4, 6, 1]"});
}

TEST(CheckpointRefusals, MissingLayersAndTensors) {
  const CheckpointFolder folder(mlp(kBlock) + mlp("model.layers.1.mlp") + mlp("model.layers.2.mlp"));
  refused(folder, {"model.safetensors", "no layer 3", "3 layers, 0 to 2"}, 3);
  refused(folder, {"no layer -1", "3 layers, 0 to 2"}, -1);
  refused(CheckpointFolder(mlp(kBlock)), {"no layer 5", "1 layer, 0"}, 5);
  for (std::size_t missing = 0; missing < 3; ++missing) {
    auto tensors = mlp(kBlock);
    const std::string name = tensors[missing].name;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(missing));
    refused(CheckpointFolder(tensors), {"model.safetensors", name});
  }
}

TEST(CheckpointRefusals, AmbiguousPrefixes) {
  refused(CheckpointFolder(mlp("left.layers.0.mlp") + mlp("right.layers.0.mlp")), {"'left.'", "'right.'"});
}

std::string weight_map(const std::string& gate, const std::string& up, const std::string& down) {
  return "{\"" + kBlock + ".gate_proj.weight\":\"" + gate + "\",\"" + kBlock + ".up_proj.weight\":\"" + up +
         "\",\"" + kBlock + ".down_proj.weight\":\"" + down + "\"}";
}

TEST(CheckpointRefusals, Indexes) {
  const auto layer = mlp(kBlock);
  refused(ShardedFolder(weight_map("s0", "s1", "s0"), {layer}),
          {"index.json", "up_proj.weight", "s1", "no such file"});
  refused(ShardedFolder(weight_map("s0", "s1", "s0"), {layer, {layer[0]}}),
          {"index.json", "up_proj.weight", "s1", "no such tensor"});
  refused(ShardedFolder(weight_map("../s0", "s0", "s0"), {layer}), {"index.json", "'../s0'", "same folder"});
  refused(ShardedFolder(weight_map("/etc/passwd", "s0", "s0"), {layer}), {"index.json", "'/etc/passwd'"});
  refused(ShardedFolder("[]", {layer}), {"index.json", "weight_map"});
  refused(ShardedFolder(R"({"a":1})", {layer}), {"index.json", "'a'"});
  refused(ShardedFolder(R"({"a":"s0","a":"s1"})", {layer}), {"index.json", "'a' twice"});
  refused(ShardedFolder("{\"" + kBlock + ".gate_proj.weight\":\"s0\"}", {layer}),
          {"index.json", "up_proj.weight"});
  const ShardedFolder pointer(weight_map("s0", "s0", "s0"), {layer});
  pointer.write("s0", kLfs);
  refused(pointer, {"s0", "Git LFS pointer"});
}

TEST(CheckpointRefusals, ShardsOfUnequalCheckpoints) {
  const auto layer = mlp(kBlock);
  const ShardedFolder shape(weight_map("s0", "s1", "s0"),
                            {{layer[0], layer[2]}, {raw_tensor(layer[1].name, {8, 4})}});
  refused(shape, {"s1", "up_proj.weight", "[8, 4]", "[6, 4]"});
  const ShardedFolder dtype(weight_map("s0", "s1", "s0"),
                            {{layer[0], layer[2]}, {raw_tensor(layer[1].name, {6, 4}, "F16")}});
  refused(dtype, {"s1", "up_proj.weight", "F16", "s0", "BF16"});
}

}  // namespace
}  // namespace samebits
