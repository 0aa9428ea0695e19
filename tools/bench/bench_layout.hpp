// One row of a bench: the block on one layout, timed run by run in turn with a baseline.
#pragma once

#include <functional>
#include <vector>

#include "block/layout_run.hpp"

namespace samebits::tools {

enum class Direction { forward, both };  // both: forward and backward of a training plan

struct BenchRun {
  Layout layout;
  Direction direction = Direction::forward;
  int repeats = 7;
};

struct BenchSamples {
  std::vector<double> ours_us, baseline_us;  // the baseline's stays empty without one
  // Of layouts of several ranks. On a CPU: how long the rank that waited longest stood still for exchanges.
  // Copies between ranks and waiting for late ones are in it. On devices: DeviceLayouts.
  std::vector<double> exposed_us{};
};

// `baseline` may be empty. One run of each goes before, untimed.
//
// Where ranks are processes, every process calls for a layout of several ranks, and rank 0 gets the samples:
// a run is as long as that of its slowest rank, from the moment when all have come. Throws LayoutRefused, on
// every process, where the layout is not allowed. There is no baseline then.
BenchSamples bench_layout(const Compute& compute, const BlockCase& block, const BenchRun& run,
                          const std::function<void()>& baseline);

}  // namespace samebits::tools
