#include "io/message.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "samebits/error.hpp"

namespace samebits::io {
namespace {

constexpr std::size_t kLongestText = 400;

bool continues(unsigned char byte) { return (byte & 0xC0u) == 0x80u; }

// Bytes of the printable character that `text` begins with; 0 when it begins with none.
std::size_t printable_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = byte(0);
  if (first < 0x80u) return first >= 0x20u && first != 0x7Fu ? 1 : 0;
  const std::size_t size = first >= 0xF0u ? 4 : first >= 0xE0u ? 3 : 2;
  if (first < 0xC2u || first > 0xF4u) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(byte(i))) return 0;
  }
  const unsigned char second = byte(1);
  if (first == 0xC2u && second < 0xA0u) return 0;   // C1 controls
  if (first == 0xE0u && second < 0xA0u) return 0;   // overlong
  if (first == 0xEDu && second >= 0xA0u) return 0;  // surrogates
  if ((first == 0xF0u && second < 0x90u) || (first == 0xF4u && second >= 0x90u)) return 0;
  if (first == 0xE2u && second == 0x80u && (byte(2) == 0xA8u || byte(2) == 0xA9u))
    return 0;  // line separators
  return size;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= kLongestText) return out + "...";
    const std::size_t size = printable_size(text);
    if (size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, size);
      text.remove_prefix(size);
    }
  }
  return out;
}

std::string joined(std::span<const std::int64_t> sizes, std::string_view separator) {
  std::string text;
  for (const std::int64_t size : sizes) {
    if (!text.empty()) text += separator;
    text += std::to_string(size);
  }
  return text;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", joined(shape, ", "));
}

void fail_file(std::string_view path, std::string_view problem) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", printable(path), problem));
}

}  // namespace samebits::io
