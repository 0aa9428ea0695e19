// Which file of a checkpoint holds which tensor, and those files, opened as they are needed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/safetensors.hpp"

namespace samebits::io {

class CheckpointFiles {
 public:
  // Throws Error(bad_file) when the folder holds neither model.safetensors nor its index, or one that is
  // broken.
  explicit CheckpointFiles(const std::string& folder);

  // The file that lists the tensors: model.safetensors or model.safetensors.index.json.
  const std::string& listing() const { return listing_; }
  const std::vector<std::string>& names() const { return names_; }  // ascending
  bool lists(std::string_view name) const;

  struct Located {
    SafetensorsFile file;
    const SafetensorsTensor* tensor;
  };
  // Throws Error(bad_file) when the tensor is listed but not where the listing says, or not listed.
  Located locate(const std::string& name);

 private:
  const SafetensorsFile& open(const std::string& file_name);

  std::string folder_;
  std::string listing_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> file_of_;     // tensor to file name; empty with a single file
  std::map<std::string, SafetensorsFile> opened_;  // by file name
};

}  // namespace samebits::io
