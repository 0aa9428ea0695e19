// Errors of a block's tensors against the same block in float64.
#pragma once

#include <array>
#include <functional>

#include "block/layout_run.hpp"
#include "block/tensors.hpp"

namespace samebits::tools {

struct ErrorNorms {
  double rel_l2 = 0;  // |t - r| / |r|
  double max_abs = 0;
  double mean_abs = 0;
};

enum AccuracyTensor { kY, kDHidden, kDGate, kDUp, kDDown, kAccuracyTensors };
inline constexpr std::array<const char*, kAccuracyTensors> kAccuracyNames = {"y", "d_hidden", "d_gate",
                                                                             "d_up", "d_down"};
using Accuracy = std::array<ErrorNorms, kAccuracyTensors>;

// The float64 block goes over I in blocks of rows, so that no whole gradient is held in float64: memory is a
// few [tokens, H] in double. `progress` hears the share done.
Accuracy measure_accuracy(const BlockCase& block, const BlockTensors& tensors, int threads,
                          const std::function<void(double)>& progress);

}  // namespace samebits::tools
