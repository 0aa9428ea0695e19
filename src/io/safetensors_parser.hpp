// What a safetensors file holds, from its bytes alone: nothing is believed that the bytes do not bear out.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/safetensors.hpp"

namespace samebits::io {

struct SafetensorsContents {
  std::vector<SafetensorsTensor>
      tensors;  // in the order of their data, which they tile without hole or overlap
  std::map<std::string, std::string> metadata;
};

// `path` is for messages. Throws Error(bad_file). The tensors point into `file`.
SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path);

}  // namespace samebits::io
