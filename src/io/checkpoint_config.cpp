#include "io/checkpoint_config.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "io/json_file.hpp"
#include "io/message.hpp"

namespace samebits::io {
namespace {

using nlohmann::json;

// Multimodal configurations keep those of their language model in one of these.
constexpr const char* kNested[] = {"text_config", "llm_config", "language_config"};

// A configuration that names no activation means the default of its model type; these are known to mean SiLU.
constexpr std::string_view kSiluByDefault[] = {"qwen", "llama", "mistral", "ministral"};

constexpr const char* kExperts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                    "moe_num_experts"};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), document_(read_json_object(path)) {
    for (const char* name : kNested) {
      const auto found = document_.find(name);
      if (found != document_.end() && found->is_object()) text_ = &*found;
    }
  }

  CheckpointConfig read() const {
    refuse_experts();
    refuse_quantisation();
    refuse_bias();
    check_activation();
    return {path_, size("hidden_size"), size("intermediate_size")};
  }

 private:
  // A setting of the language model, wherever it stands; null when it stands nowhere or is null.
  const json* find(const char* name) const {
    for (const json* level : {text_, &document_}) {
      if (level == nullptr) continue;
      const auto found = level->find(name);
      if (found != level->end() && !found->is_null()) return &*found;
    }
    return nullptr;
  }

  [[noreturn]] void refuse(std::string_view problem) const { fail_file(path_, problem); }
  static std::string shown(const json& value) {
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
  }

  std::optional<std::int64_t> size(const char* name) const {
    const json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || value->get<std::int64_t>() <= 0) {
      refuse(fmt::format("{} is {}; a whole number above 0 is legal", name, shown(*value)));
    }
    return value->get<std::int64_t>();
  }

  void refuse_experts() const {
    for (const char* name : kExperts) {
      const json* const value = find(name);
      if (value == nullptr || (value->is_number() && value->get<double>() <= 0)) continue;
      refuse(fmt::format(
          "{} is {}: a mixture of experts, which samebits does not compute; it takes dense SwiGLU blocks",
          name, shown(*value)));
    }
  }

  void refuse_quantisation() const {
    const json* const value = find("quantization_config");
    if (value == nullptr) return;
    std::string method;
    if (value->is_object() && value->contains("quant_method"))
      method = fmt::format(" ({})", shown((*value)["quant_method"]));
    refuse(
        fmt::format("has a quantization_config{}: quantised weights are not supported; use the BF16, F16 or "
                    "F32 checkpoint",
                    method));
  }

  void refuse_bias() const {
    const json* const value = find("mlp_bias");
    if (value == nullptr || *value == json(false)) return;
    refuse(fmt::format("mlp_bias is {}: samebits takes blocks without bias (mlp_bias false)", shown(*value)));
  }

  void check_activation() const {
    for (const char* name : {"hidden_act", "hidden_activation"}) {
      const json* const value = find(name);
      if (value == nullptr) continue;
      if (*value == json("silu") || *value == json("swish")) return;
      refuse(fmt::format("{} is {}: samebits computes SwiGLU, where it is \"silu\" or \"swish\"", name,
                         shown(*value)));
    }
    const json* const type = find("model_type");
    if (type == nullptr || !type->is_string()) return;
    const auto& name = type->get_ref<const std::string&>();
    for (const std::string_view known : kSiluByDefault) {
      if (name.starts_with(known)) return;
    }
    refuse(fmt::format(
        "says no hidden_act, and samebits does not know what model_type '{}' means by that; write "
        "\"hidden_act\": \"silu\" there if that is its activation",
        printable(name)));
  }

  std::string path_;
  json document_;
  const json* text_ = nullptr;  // into document_
};

}  // namespace

CheckpointConfig read_checkpoint_config(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "config.json";
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::exists(status))
    fail_file(folder, "no such folder; a checkpoint is a folder with config.json");
  if (!std::filesystem::is_directory(status)) {
    fail_file(folder,
              "is not a folder; a checkpoint is the folder that holds config.json and model.safetensors");
  }
  if (!std::filesystem::exists(path, ignored)) {
    fail_file(path.string(), "no such file; a checkpoint folder holds config.json");
  }
  return Reader(path.string()).read();
}

}  // namespace samebits::io
