// Shapes by name or by number, token counts, and the limits that keep every product of sizes within 63 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/layout.hpp"

namespace samebits::tools {

struct NamedShape {
  std::string name;  // "qwen3-8b", or "4096x12288"
  Shape shape;
};

// A Qwen3 size or HxI.
NamedShape parse_shape(std::string_view text);

// "qwen3-0.6b, qwen3-1.7b, ..."
std::string shape_names();

// A count from 0 up that fits 63 bits; `flag` is named in errors.
std::int64_t parse_count(std::string_view flag, std::string_view text);

// "1,8,32"
std::vector<std::string> split_list(std::string_view text);

// Refuses tokens and shapes whose tensors have more bytes than 63 bits count.
void check_sizes(const Shape& shape, std::int64_t tokens);

}  // namespace samebits::tools
