// Safetensors files out: the header first, then each tensor's rows as they are read, so that no strided
// tensor is copied whole.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "io/elements.hpp"
#include "io/message.hpp"
#include "io/output_file.hpp"
#include "io/safetensors_dtype.hpp"
#include "samebits/error.hpp"
#include "samebits/safetensors.hpp"

namespace samebits {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

void check(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      throw Error(ErrorCode::invalid_argument,
                  "a tensor cannot be named '__metadata__': the format keeps that name");
    }
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("two tensors are named '{}'; names must differ", io::printable(tensor.name)));
    }
    io::check_host_view(tensor.view, fmt::format("tensor '{}'", io::printable(tensor.name)));
  }
}

std::vector<const NamedTensor*> in_file_order(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const std::size_t size_a = size_of(a->view.dtype), size_b = size_of(b->view.dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return order;
}

std::uint64_t bytes_of(const ConstView& view) {
  return static_cast<std::uint64_t>(view.elements()) * size_of(view.dtype);
}

// The JSON, padded with spaces so that the data begins at a multiple of 8.
std::string header_text(const std::vector<const NamedTensor*>& order,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  for (const NamedTensor* tensor : order) {
    const std::uint64_t end = begin + bytes_of(tensor->view);
    header[tensor->name] = {{"dtype", std::string(io::safetensors_name(tensor->view.dtype))},
                            {"shape", {tensor->view.rows, tensor->view.cols}},
                            {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(ErrorCode::invalid_argument,
                "a tensor name or metadata text is not UTF-8, which the format demands");
  }
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

void write_length(io::OutputFile& file, std::uint64_t length) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(length >> (8 * i));
  file.write(bytes, sizeof bytes);
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(tensors);
  const std::vector<const NamedTensor*> order = in_file_order(tensors);
  const std::string header = header_text(order, metadata);
  io::OutputFile file(path);
  write_length(file, header.size());
  file.write(header.data(), header.size());
  for (const NamedTensor* tensor : order) {
    io::for_each_run(tensor->view, [&](const void* data, std::size_t size) { file.write(data, size); });
  }
  file.commit();
}

}  // namespace samebits
