// The six columns of verify: the tensors of a block run, and one value for each of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "samebits/layout.hpp"
#include "shared/host_tensor.hpp"

namespace samebits::tools {

enum BlockTensor {
  kOutput,
  kTrainingOutput,
  kHiddenGradient,
  kGateGradient,
  kUpGradient,
  kDownGradient,
  kBlockTensors
};

inline constexpr std::array<const char*, kBlockTensors> kBlockTensorNames = {
    "output", "training_output", "d_hidden", "d_gate", "d_up", "d_down"};

template <class Value>
using PerTensor = std::array<Value, kBlockTensors>;

// Whole tensors: what the ranks of a layout make together.
struct BlockTensors {
  PerTensor<HostTensor> tensor;

  BlockTensors(const Shape& shape, std::int64_t tokens, DType gradients, bool training = true) {
    tensor[kOutput] = HostTensor(tokens, shape.hidden);
    if (!training) return;
    tensor[kTrainingOutput] = HostTensor(tokens, shape.hidden);
    tensor[kHiddenGradient] = HostTensor(tokens, shape.hidden);
    tensor[kGateGradient] = HostTensor(shape.intermediate, shape.hidden, gradients);
    tensor[kUpGradient] = HostTensor(shape.intermediate, shape.hidden, gradients);
    tensor[kDownGradient] = HostTensor(shape.hidden, shape.intermediate, gradients);
  }

  void poison() {
    for (HostTensor& one : tensor) one.poison();
  }

  View view(BlockTensor which) { return tensor[which].view(); }
  ConstView view(BlockTensor which) const { return tensor[which].view(); }
};

// 32 hex digits each.
PerTensor<std::string> digests_of(const BlockTensors& tensors, int threads);

// Elements whose bits differ. Views of one shape and type.
std::int64_t count_differing(const ConstView& a, const ConstView& b);

}  // namespace samebits::tools
