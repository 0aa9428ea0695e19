// Any bytes: the safetensors parser reads them or throws samebits::Error, and what it reads lies within them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "io/safetensors_parser.hpp"
#include "samebits/error.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// One printable line.
void check_message(std::string_view message) {
  require(!message.empty() && message.size() < 4096);
  for (const char c : message) require(static_cast<unsigned char>(c) >= 0x20);
}

void check_contents(const samebits::io::SafetensorsContents& contents, std::span<const std::byte> file) {
  std::uint64_t next = 0;
  const std::byte* const end = file.data() + file.size();
  for (const samebits::SafetensorsTensor& tensor : contents.tensors) {
    require(tensor.begin == next && tensor.end >= tensor.begin);
    next = tensor.end;
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    require(data >= file.data() + 8 && data <= end);
    require(tensor.bytes() <= static_cast<std::uint64_t>(end - data));
    // Every byte is readable: a sanitizer would say otherwise.
    volatile unsigned sum = 0;
    for (std::uint64_t i = 0; i < tensor.bytes(); ++i) sum = sum + std::to_integer<unsigned>(data[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    check_contents(samebits::io::parse_safetensors(file, "input"), file);
  } catch (const samebits::Error& error) {
    require(error.code() == samebits::ErrorCode::bad_file);
    check_message(error.what());
  }
  return 0;
}
