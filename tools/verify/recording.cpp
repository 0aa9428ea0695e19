#include "verify/recording.hpp"

#include <fmt/format.h>

#include <numeric>

#include "io/message.hpp"
#include "samebits/compare.hpp"

namespace samebits::tools {

std::int64_t RecordingCheck::differing() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t sum, const Tensor& tensor) { return sum + tensor.differing; });
}

Recording::Recording(const std::string& path, const Shape& shape, DType gradients)
    : file_(SafetensorsFile::open(path)),
      x_(read_tokens(file_, "x", shape.hidden)),
      dy_(read_tokens(file_, "dy", shape.hidden)) {
  const std::int64_t tokens = x().rows, hidden = shape.hidden, intermediate = shape.intermediate;
  if (dy().rows != tokens)
    io::fail_file(path, fmt::format("'dy' has {} tokens, 'x' has {}", dy().rows, tokens));
  const auto add = [&](const char* name, BlockTensor which, std::int64_t rows, std::int64_t cols,
                       DType dtype) {
    if (file_.find(name) == nullptr) return;
    HostMatrix matrix = file_.matrix(name);
    const ConstView& view = matrix.view;
    if (view.dtype != dtype || view.rows != rows || view.cols != cols) {
      io::fail_file(path, fmt::format("'{}' is {} {}x{}; {} {}x{} is wanted", name, name_of(view.dtype),
                                      view.rows, view.cols, name_of(dtype), rows, cols));
    }
    results_.push_back({name, which, std::move(matrix)});
  };
  add("y", kOutput, tokens, hidden, DType::bf16);
  add("dx", kHiddenGradient, tokens, hidden, DType::bf16);
  add("d_gate", kGateGradient, intermediate, hidden, gradients);
  add("d_up", kUpGradient, intermediate, hidden, gradients);
  add("d_down", kDownGradient, hidden, intermediate, gradients);
  if (results_.empty())
    io::fail_file(path, "no results: at least one of y, dx, d_gate, d_up and d_down is wanted");
}

std::string Recording::conversion() const {
  if (x_.conversion.empty() || dy_.conversion.empty()) return x_.conversion + dy_.conversion;
  return x_.conversion + ", " + dy_.conversion;
}

RecordingCheck Recording::check(const BlockTensors& ours) const {
  RecordingCheck check{file_.path(), {}};
  for (const Result& result : results_) {
    const TensorDifference difference =
        compare(ours.view(result.which), result.matrix.view, {.any_nan_equal = true});
    check.tensors.push_back({result.name, difference.elements, difference.differing});
  }
  return check;
}

}  // namespace samebits::tools
