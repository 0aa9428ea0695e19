#include "io/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "io/json_file.hpp"
#include "io/message.hpp"

namespace samebits::io {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string within(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The weight_map of an index: tensor name to the name of a file in the same folder.
std::map<std::string, std::string> read_weight_map(const std::string& path) {
  const nlohmann::json index = read_json_object(path);
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object()) {
    fail_file(path, "has no object weight_map, which says what file holds each tensor");
  }
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) {
      fail_file(path, fmt::format("weight_map maps '{}' to a {}; a file name is legal", printable(tensor),
                                  file.type_name()));
    }
    const auto& name = file.get_ref<const std::string&>();
    // A checkpoint reads files of its own folder only.
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      fail_file(path,
                fmt::format("weight_map maps '{}' to '{}'; the name of a file in the same folder is legal",
                            printable(tensor), printable(name)));
    }
    file_of.emplace(tensor, name);
  }
  return file_of;
}

}  // namespace

CheckpointFiles::CheckpointFiles(const std::string& folder) : folder_(folder) {
  // A single file wins over an index, as it does for Hugging Face transformers.
  if (exists(within(folder, kSingle))) {
    listing_ = within(folder, kSingle);
    for (const SafetensorsTensor& tensor : open(kSingle).tensors()) names_.push_back(tensor.name);
  } else if (exists(within(folder, kIndex))) {
    listing_ = within(folder, kIndex);
    file_of_ = read_weight_map(listing_);
    for (const auto& [tensor, file] : file_of_) names_.push_back(tensor);
  } else {
    const bool pickled =
        exists(within(folder, "pytorch_model.bin")) || exists(within(folder, "pytorch_model.bin.index.json"));
    fail_file(folder, fmt::format("holds neither {} nor {}{}", kSingle, kIndex,
                                  pickled ? ", only pytorch_model.bin; convert it to safetensors" : ""));
  }
  std::sort(names_.begin(), names_.end());
}

bool CheckpointFiles::lists(std::string_view name) const {
  return std::binary_search(names_.begin(), names_.end(), name);
}

const SafetensorsFile& CheckpointFiles::open(const std::string& file_name) {
  const auto found = opened_.find(file_name);
  if (found != opened_.end()) return found->second;
  return opened_.emplace(file_name, SafetensorsFile::open(within(folder_, file_name))).first->second;
}

CheckpointFiles::Located CheckpointFiles::locate(const std::string& name) {
  if (!lists(name)) fail_file(listing_, fmt::format("holds no tensor '{}'", printable(name)));
  if (file_of_.empty()) {
    const SafetensorsFile& file = open(kSingle);
    return {file, &file.at(name)};
  }
  const std::string& file_name = file_of_.at(name);
  if (!exists(within(folder_, file_name))) {
    fail_file(listing_,
              fmt::format("says that '{}' is in {}, but there is no such file: the checkpoint is incomplete",
                          printable(name), printable(file_name)));
  }
  const SafetensorsFile& file = open(file_name);
  const SafetensorsTensor* const tensor = file.find(name);
  if (tensor == nullptr) {
    fail_file(
        listing_,
        fmt::format("says that '{}' is in {}, but that file holds no such tensor: index and shards are of "
                    "different checkpoints",
                    printable(name), printable(file_name)));
  }
  return {file, tensor};
}

}  // namespace samebits::io
