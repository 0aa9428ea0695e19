// A mapped safetensors file.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "io/mapped_file.hpp"
#include "io/message.hpp"
#include "io/safetensors_dtype.hpp"
#include "io/safetensors_parser.hpp"
#include "samebits/safetensors.hpp"

namespace samebits {

struct SafetensorsFile::Contents {
  explicit Contents(const std::string& file) : path(file), mapping(file) {
    parsed = io::parse_safetensors(mapping.bytes(), path);
    for (const SafetensorsTensor& tensor : parsed.tensors) by_name.emplace(tensor.name, &tensor);
  }
  std::string path;
  io::MappedFile mapping;
  io::SafetensorsContents parsed;
  std::map<std::string_view, const SafetensorsTensor*> by_name;  // into `parsed`
};

namespace {

std::string some_names(std::span<const SafetensorsTensor> tensors) {
  constexpr std::size_t kShown = 8;
  std::string names;
  for (std::size_t i = 0; i < tensors.size() && i < kShown; ++i) {
    names += fmt::format("{}'{}'", i == 0 ? "" : ", ", io::printable(tensors[i].name));
  }
  if (tensors.size() > kShown) names += fmt::format(" and {} more", tensors.size() - kShown);
  return names.empty() ? "none" : names;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  return SafetensorsFile(std::make_shared<const Contents>(path));
}

const std::string& SafetensorsFile::path() const { return contents_->path; }
std::span<const SafetensorsTensor> SafetensorsFile::tensors() const { return contents_->parsed.tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return contents_->parsed.metadata;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : found->second;
}

const SafetensorsTensor& SafetensorsFile::at(std::string_view name) const {
  const SafetensorsTensor* const tensor = find(name);
  if (tensor == nullptr) {
    io::fail_file(
        path(), fmt::format("holds no tensor '{}'; it holds {}", io::printable(name), some_names(tensors())));
  }
  return *tensor;
}

HostMatrix SafetensorsFile::matrix(const SafetensorsTensor& tensor) const {
  const std::optional<DType> dtype = io::view_dtype(tensor.dtype);
  if (!dtype) {
    io::fail_file(path(), fmt::format("tensor '{}' is {}; BF16, F16 or F32 is needed here",
                                      io::printable(tensor.name), tensor.dtype));
  }
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) {
    if (__builtin_mul_overflow(rows, tensor.shape[axis], &rows)) {  // possible when cols is 0
      io::fail_file(path(), fmt::format("tensor '{}' has more rows than 64 bits can count",
                                        io::printable(tensor.name)));
    }
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % size_of(*dtype) == 0;
  if (aligned || tensor.bytes() == 0) {
    return {host_view(tensor.bytes() == 0 ? nullptr : tensor.data, rows, cols, *dtype), contents_};
  }
  const std::shared_ptr<unsigned char[]> copy(new unsigned char[tensor.bytes()]);  // aligned for any scalar
  std::memcpy(copy.get(), tensor.data, tensor.bytes());
  return {host_view(static_cast<const void*>(copy.get()), rows, cols, *dtype), copy};
}

}  // namespace samebits
