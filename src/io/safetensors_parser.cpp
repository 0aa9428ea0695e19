#include "io/safetensors_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "io/git_lfs.hpp"
#include "io/message.hpp"
#include "io/safetensors_dtype.hpp"
#include "io/safetensors_header.hpp"

namespace samebits::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as the format's own library has it

std::uint64_t read_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// product = product * factor; false when it does not fit in int64, since sizes are int64 everywhere else.
bool multiply(std::uint64_t& product, std::uint64_t factor) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (factor != 0 && product > kMost / factor) return false;
  product *= factor;
  return true;
}

// What is wrong with one tensor taken alone; empty when nothing is.
std::string tensor_problem(const SafetensorsTensor& tensor, std::uint64_t data_bytes) {
  const std::uint32_t bits = safetensors_bits(tensor.dtype);
  if (bits == 0) {
    return fmt::format("has the unknown dtype '{}'; known are {}", printable(tensor.dtype),
                       safetensors_dtypes());
  }
  std::uint64_t size = 1;
  bool fits = true;
  for (const std::int64_t axis : tensor.shape)
    fits = fits && multiply(size, static_cast<std::uint64_t>(axis));
  if (!fits || !multiply(size, bits)) {
    return fmt::format("has the shape {}, more elements than 64 bits can count", shape_text(tensor.shape));
  }
  if (size % 8 != 0) {
    return fmt::format("has the shape {} of {}-bit elements, which does not fill whole bytes",
                       shape_text(tensor.shape), bits);
  }
  size /= 8;
  if (tensor.end < tensor.begin) {
    return fmt::format("has data_offsets [{}, {}], which end before they begin", tensor.begin, tensor.end);
  }
  if (tensor.end - tensor.begin != size) {
    return fmt::format("has data_offsets [{}, {}], {} bytes, but {} {} takes {}", tensor.begin, tensor.end,
                       tensor.end - tensor.begin, tensor.dtype, shape_text(tensor.shape), size);
  }
  if (tensor.end > data_bytes) {
    return fmt::format(
        "ends at byte {} of the data, of which the file holds {}: it is cut short, or not what it claims",
        tensor.end, data_bytes);
  }
  return {};
}

// Sorted tensors must tile [0, data_bytes).
void check_tiling(std::span<const SafetensorsTensor> tensors, std::uint64_t data_bytes,
                  std::string_view path) {
  std::uint64_t next = 0;
  std::string_view before;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin < next) {
      fail_file(path, fmt::format("tensor '{}' begins at byte {} of the data, inside tensor '{}'",
                                  printable(tensor.name), tensor.begin, printable(before)));
    }
    if (tensor.begin > next) {
      fail_file(path, fmt::format(
                          "tensor '{}' begins at byte {} of the data, but what stands before it ends at {}: "
                          "the data may have no holes",
                          printable(tensor.name), tensor.begin, next));
    }
    next = tensor.end;
    before = tensor.name;
  }
  if (next != data_bytes) {
    fail_file(path, fmt::format("its data is {} bytes, of which the last {} belong to no tensor", data_bytes,
                                data_bytes - next));
  }
}

}  // namespace

SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (is_git_lfs_pointer(text)) fail_file(path, kGitLfsProblem);
  if (file.size() < kLengthBytes) {
    fail_file(path, fmt::format("is {} bytes long; a safetensors file begins with 8 bytes of header length",
                                file.size()));
  }
  const std::uint64_t header_bytes = read_little_endian(file);
  if (header_bytes == 0) fail_file(path, "its header length is 0; a header is at least 2 bytes of JSON");
  if (header_bytes > kLongestHeader) {
    fail_file(path,
              fmt::format("its header length is {}; at most {} is legal: this is not a safetensors file",
                          header_bytes, kLongestHeader));
  }
  if (header_bytes > file.size() - kLengthBytes) {
    fail_file(path,
              fmt::format("its header length is {}, but only {} bytes follow: it is cut short, or not a "
                          "safetensors file",
                          header_bytes, file.size() - kLengthBytes));
  }
  SafetensorsContents contents;
  const std::string problem = read_safetensors_header(text.substr(kLengthBytes, header_bytes), contents);
  if (!problem.empty()) fail_file(path, problem);

  const std::span<const std::byte> data = file.subspan(kLengthBytes + header_bytes);
  for (SafetensorsTensor& tensor : contents.tensors) {
    const std::string lie = tensor_problem(tensor, data.size());
    if (!lie.empty()) fail_file(path, fmt::format("tensor '{}' {}", printable(tensor.name), lie));
    tensor.data = data.data() + tensor.begin;
  }
  // Names order the empty tensors of one place.
  std::sort(contents.tensors.begin(), contents.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_tiling(contents.tensors, data.size(), path);
  return contents;
}

}  // namespace samebits::io
