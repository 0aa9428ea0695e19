// The feed-forward weights of one layer of a Hugging Face checkpoint folder: config.json, and
// model.safetensors or the shards that model.safetensors.index.json names. What this block does not compute
// (experts, biases, other activations, quantised or fused weights) is refused by name.
//
//   const LayerWeights layer = load_layer("Qwen3-8B", 0);
//   Plan plan({.contract = contract, .shape = layer.shape, .max_tokens = 512});
//   const Weights weights = plan.slice(layer.gate, layer.up, layer.down);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "samebits/export.hpp"
#include "samebits/layout.hpp"
#include "samebits/view.hpp"

namespace samebits {

struct LayerWeights {
  Shape shape;
  ConstView gate;      // [I, H], bf16, as are the others; valid as long as this struct or a copy of it lives
  ConstView up;        // [I, H]
  ConstView down;      // [H, I]
  std::string source;  // "Qwen3-8B, model.layers.0.mlp"
  std::string conversion;  // empty: the file's own bits; else e.g. "F32 rounded to nearest even bf16"
  std::vector<std::shared_ptr<const void>> owners;
};

// BF16 weights are used in the mapped file where their address allows it; F16 and F32 are rounded to bf16 in
// a copy. Throws Error(bad_file): one line that names the file, the tensor or setting at fault, and what
// would be legal.
SAMEBITS_API LayerWeights load_layer(const std::string& folder, std::int64_t layer);

}  // namespace samebits
