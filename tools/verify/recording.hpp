// What other software made of a block: its x and dy, and what came of them, held against ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "block/source.hpp"
#include "block/tensors.hpp"

namespace samebits::tools {

struct RecordingCheck {
  struct Tensor {
    std::string name;
    std::int64_t elements = 0;
    std::int64_t differing = 0;
  };
  std::string path;
  std::vector<Tensor> tensors;
  std::int64_t differing() const;
};

class Recording {
 public:
  // A safetensors file with x and dy, [tokens, H], and at least one of y, dx, d_gate, d_up and d_down, the
  // gradients of the weights in `gradients`. Throws Error(bad_file) for anything else.
  Recording(const std::string& path, const Shape& shape, DType gradients);

  const ConstView& x() const { return x_.matrix.view; }
  const ConstView& dy() const { return dy_.matrix.view; }
  std::string conversion() const;  // of x and dy; empty: the file's own bits

  // Any NaN equals any NaN.
  RecordingCheck check(const BlockTensors& ours) const;

 private:
  struct Result {
    const char* name;
    BlockTensor which;
    HostMatrix matrix;
  };

  SafetensorsFile file_;
  TokensFromFile x_, dy_;
  std::vector<Result> results_;
};

}  // namespace samebits::tools
