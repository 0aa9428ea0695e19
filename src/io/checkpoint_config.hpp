// What config.json says of the block, and whether the block is one that samebits computes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace samebits::io {

struct CheckpointConfig {
  std::string path;
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> intermediate;
};

// Throws Error(bad_file) when the file is absent or broken, or describes another block.
CheckpointConfig read_checkpoint_config(const std::string& folder);

}  // namespace samebits::io
