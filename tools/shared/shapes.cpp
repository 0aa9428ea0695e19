#include "shared/shapes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "shared/failure.hpp"

namespace samebits::tools {
namespace {

struct KnownShape {
  std::string_view name;
  Shape shape;
};

constexpr KnownShape kShapes[] = {
    {"qwen3-0.6b", {1024, 3072}}, {"qwen3-1.7b", {2048, 6144}}, {"qwen3-4b", {2560, 9728}},
    {"qwen3-8b", {4096, 12288}},  {"qwen3-14b", {5120, 17408}}, {"qwen3-32b", {5120, 25600}},
};

bool read_count(std::string_view text, std::int64_t& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size() && !text.empty() && value >= 0;
}

// Whether a times b elements of the widest type have a byte count below 2^63.
bool fits(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 8;
  return a == 0 || b <= kMostElements / a;
}

}  // namespace

NamedShape parse_shape(std::string_view text) {
  for (const KnownShape& known : kShapes) {
    if (known.name == text) return {std::string(text), known.shape};
  }
  const std::size_t cross = text.find('x');
  Shape shape;
  if (cross == std::string_view::npos || !read_count(text.substr(0, cross), shape.hidden) ||
      !read_count(text.substr(cross + 1), shape.intermediate) || shape.hidden < 1 || shape.intermediate < 1) {
    fail_usage(
        fmt::format("--shape {}: a shape is HIDDENxINTERMEDIATE, both from 1 up and below 2^63, or one of {}",
                    text, shape_names()));
  }
  return {std::string(text), shape};
}

std::string shape_names() {
  std::string names;
  for (const KnownShape& known : kShapes) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

std::int64_t parse_count(std::string_view flag, std::string_view text) {
  std::int64_t value = 0;
  if (!read_count(text, value)) {
    fail_usage(fmt::format("{} {}: a whole number from 0 up and below 2^63 is wanted", flag, text));
  }
  return value;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

void check_sizes(const Shape& shape, std::int64_t tokens) {
  if (!fits(shape.hidden, shape.intermediate)) {
    fail_usage(fmt::format("shape {}x{}: a weight would have more bytes than 63 bits count", shape.hidden,
                           shape.intermediate));
  }
  if (!fits(shape.hidden, tokens) || !fits(shape.intermediate, tokens)) {
    fail_usage(fmt::format("--tokens {}: with shape {}x{} a tensor would have more bytes than 63 bits count",
                           tokens, shape.hidden, shape.intermediate));
  }
}

}  // namespace samebits::tools
