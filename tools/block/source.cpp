#include "block/source.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "io/message.hpp"
#include "io/to_bf16.hpp"
#include "shared/parallel.hpp"
#include "shared/tensor_file.hpp"

namespace samebits::tools {
namespace {

HostTensor seeded_tensor(SeededTensor tensor, std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                         int threads) {
  HostTensor out(rows, cols);
  parallel_parts(threads, rows, [&](std::int64_t begin, std::int64_t end, int) {
    fill_seeded(out.view().slice_rows(begin, end),
                {.seed = seed, .tensor = tensor, .row_length = cols, .first_row = begin});
  });
  return out;
}

}  // namespace

LayerWeights seeded_weights(const Shape& shape, std::uint64_t seed, int threads) {
  LayerWeights out;
  out.shape = shape;
  out.source = fmt::format("seed {}", seed);
  const auto take = [&](SeededTensor tensor, std::int64_t rows, std::int64_t cols) {
    const auto owner = std::make_shared<HostTensor>(seeded_tensor(tensor, rows, cols, seed, threads));
    out.owners.push_back(owner);
    return std::as_const(*owner).view();
  };
  out.gate = take(SeededTensor::gate, shape.intermediate, shape.hidden);
  out.up = take(SeededTensor::up, shape.intermediate, shape.hidden);
  out.down = take(SeededTensor::down, shape.hidden, shape.intermediate);
  return out;
}

HostTensor seeded_tokens(SeededTensor tensor, const Shape& shape, std::int64_t tokens, std::uint64_t seed,
                         int threads) {
  return seeded_tensor(tensor, tokens, shape.hidden, seed, threads);
}

TokensFromFile read_tokens(const SafetensorsFile& file, const std::string& name, std::int64_t hidden) {
  const SafetensorsTensor& tensor = file.at(name);
  if (tensor.dtype != "BF16" && tensor.dtype != "F16" && tensor.dtype != "F32") {
    io::fail_file(file.path(), fmt::format("tensor '{}' is {}; BF16 is wanted (F16 and F32 are rounded)",
                                           name, tensor.dtype));
  }
  if (tensor.shape.size() < 2 || tensor.shape.back() != hidden) {
    io::fail_file(
        file.path(),
        fmt::format(
            "tensor '{}' has the shape {}; [tokens, {}] is wanted: the hidden size of the layer is {}", name,
            io::shape_text(tensor.shape), hidden, hidden));
  }
  HostMatrix matrix = file.matrix(tensor);
  const ConstView& from = matrix.view;
  if (from.dtype == DType::bf16) return {std::move(matrix), {}};

  const auto copy = std::make_shared<HostTensor>(from.rows, from.cols);
  auto* const to = static_cast<std::uint16_t*>(copy->view().data);
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    to[i] = from.dtype == DType::f16 ? io::bf16_of_f16(static_cast<const std::uint16_t*>(from.data)[i])
                                     : io::bf16_of_f32(static_cast<const std::uint32_t*>(from.data)[i]);
  }
  return {{std::as_const(*copy).view(), copy},
          fmt::format("{} of {} rounded to nearest even bf16", name, tensor.dtype)};
}

}  // namespace samebits::tools
