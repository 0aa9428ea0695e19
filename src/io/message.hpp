// Words of error messages. Names and paths come from files and from people: a message stays one printable
// line of valid UTF-8 whatever they hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace samebits::io {

// `text` with control characters and broken UTF-8 written as \xNN, and cut where it is too long to read.
std::string printable(std::string_view text);

std::string joined(std::span<const std::int64_t> sizes, std::string_view separator);

// "[151936, 4096]"
std::string shape_text(std::span<const std::int64_t> shape);

// Throws Error(bad_file): "PATH: problem".
[[noreturn]] void fail_file(std::string_view path, std::string_view problem);

}  // namespace samebits::io
