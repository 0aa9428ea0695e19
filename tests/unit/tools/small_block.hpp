// A seeded block small enough to run in a moment, and the flags as a person leaves them.
#pragma once

#include <string>

#include "block/layout_run.hpp"
#include "block/source.hpp"

namespace samebits::tools {

inline Compute compute_with(const std::string& contract = "bf16-tree-v1",
                            const std::string& split = "contiguous") {
  ComputeFlags flags;
  flags.contract = contract;
  flags.split = split;
  flags.threads = 2;
  return Compute(flags);
}

class SmallBlock {
 public:
  explicit SmallBlock(const Shape& shape = {64, 208}, std::int64_t tokens = 7, DType gradients = DType::bf16)
      : weights_(seeded_weights(shape, 0, 1)),
        x_(seeded_tokens(SeededTensor::x, shape, tokens, 0, 1)),
        dy_(seeded_tokens(SeededTensor::dy, shape, tokens, 0, 1)),
        block_{shape,
               tokens,
               std::as_const(x_).view(),
               std::as_const(dy_).view(),
               weights_.gate,
               weights_.up,
               weights_.down,
               gradients} {}

  const BlockCase& block() const { return block_; }

  BlockTensors run(const Compute& compute, const Layout& layout = {}) const {
    BlockTensors out(block_.shape, block_.tokens, block_.gradients);
    run_layout(compute, block_, {.layout = layout}, out);
    return out;
  }

 private:
  LayerWeights weights_;
  HostTensor x_, dy_;
  BlockCase block_;
};

// Another value in one element.
inline void spoil(BlockTensors& tensors, BlockTensor which, std::int64_t row, std::int64_t col) {
  const View view = tensors.view(which);
  static_cast<std::uint16_t*>(view.data)[row * view.row_stride + col] ^= 1;
}

}  // namespace samebits::tools
