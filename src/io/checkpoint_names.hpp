// Tensor names of a checkpoint, read as PREFIX "layers." N ".mlp." REST.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace samebits::io {

struct MlpName {
  std::string_view prefix;  // "model.", "model.language_model.", "" ...
  std::int64_t layer = 0;
  std::string_view rest;  // "gate_proj.weight", "experts.3.up_proj.weight" ...
};

std::optional<MlpName> parse_mlp_name(std::string_view name);

struct LanguageModel {
  std::string prefix;
  std::set<std::int64_t> layers;  // that have a feed-forward part
};

// Several prefixes may hold such layers (a vision tower, a draft head). Those of a Hugging Face language
// model win; otherwise there must be one. Throws Error(bad_file) naming `listing`.
LanguageModel find_language_model(std::span<const std::string> names, const std::string& listing);

// "36 layers, 0 to 35"
std::string layers_text(const std::set<std::int64_t>& layers);

}  // namespace samebits::io
