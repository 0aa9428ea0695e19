// The JSON header of a safetensors file, read as a stream: its grammar is checked here, its claims about the
// data by the parser.
#pragma once

#include <string>
#include <string_view>

#include "io/safetensors_parser.hpp"

namespace samebits::io {

// Fills `contents` but for the data pointers. Returns what is wrong, or an empty string.
std::string read_safetensors_header(std::string_view text, SafetensorsContents& contents);

}  // namespace samebits::io
