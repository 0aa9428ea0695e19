// Layouts whose ranks are processes with a device each: every rank's calls in a graph, which all replay
// together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/bench_layout.hpp"
#include "bench/ceiling.hpp"

namespace samebits::tools {

class DeviceLayouts {
 public:
  virtual ~DeviceLayouts() = default;

  // Collective over the world. `block` is on the host, whole. A sample is the slowest rank's replay, shared
  // among its calls; exposed is what that takes beyond a replay of the same calls with the exchanges left
  // out. Throws LayoutRefused, on every process, where the layout is not allowed.
  virtual BenchSamples time(const BlockCase& block, const BenchRun& run) = 0;

  virtual const Ceiling& ceiling() const = 0;  // of rank 0's device; elsewhere empty
  virtual const std::vector<std::string>& notes() const = 0;
};

// Collective. `both`: rows of both directions will come, not of the forward alone. Throws Error(environment)
// in a build without CUDA.
std::unique_ptr<DeviceLayouts> make_cuda_layouts(const Compute& compute, bool both);

}  // namespace samebits::tools
