// A JSON file of a checkpoint, as an object. Duplicate keys and nesting that no such file has are refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace samebits::io {

// Throws Error(bad_file) naming `path`.
nlohmann::json read_json_object(const std::string& path);

}  // namespace samebits::io
