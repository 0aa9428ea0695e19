// Small Hugging Face checkpoints, made by hand so that any of their claims can be false.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "unit/io/safetensors_bytes.hpp"
#include "unit/io/temp_folder.hpp"

namespace samebits::test {

struct RawTensor {
  std::string name;
  std::string dtype = "BF16";
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// Element i of the tensor holds i + 1 in its low bits, for a dtype of `size` bytes.
inline RawTensor raw_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                            const std::string& dtype = "BF16", std::size_t size = 2) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  RawTensor tensor{name, dtype, shape, std::string(static_cast<std::size_t>(count) * size, '\0')};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    for (std::size_t b = 0; b < size && b < 2; ++b)
      tensor.bytes[i * size + b] = static_cast<char>((i + 1) >> (8 * b));
  }
  return tensor;
}

inline std::string raw_safetensors(const std::vector<RawTensor>& tensors, std::size_t padding = 0) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_bytes(header.dump() + std::string(padding, ' '), data);
}

// H 4, I 6.
inline const char* const kConfig =
    R"({"model_type":"qwen3","hidden_act":"silu","hidden_size":4,"intermediate_size":6})";

inline std::vector<RawTensor> mlp(const std::string& block, const std::string& dtype = "BF16",
                                  std::size_t size = 2) {
  return {raw_tensor(block + ".gate_proj.weight", {6, 4}, dtype, size),
          raw_tensor(block + ".up_proj.weight", {6, 4}, dtype, size),
          raw_tensor(block + ".down_proj.weight", {4, 6}, dtype, size)};
}

inline std::vector<RawTensor> operator+(std::vector<RawTensor> a, const std::vector<RawTensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A folder with config.json and model.safetensors.
class CheckpointFolder : public TempFolder {
 public:
  explicit CheckpointFolder(const std::vector<RawTensor>& tensors, const std::string& config = kConfig,
                            std::size_t padding = 0) {
    write("config.json", config);
    write("model.safetensors", raw_safetensors(tensors, padding));
  }
};

// A folder with config.json, an index and the shards; `weight_map` is JSON.
class ShardedFolder : public TempFolder {
 public:
  ShardedFolder(const std::string& weight_map, const std::vector<std::vector<RawTensor>>& shards,
                const std::string& config = kConfig) {
    write("config.json", config);
    write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + weight_map + "}");
    for (std::size_t i = 0; i < shards.size(); ++i)
      write(std::string("s") + std::to_string(i), raw_safetensors(shards[i]));
  }
};

}  // namespace samebits::test
