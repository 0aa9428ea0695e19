// The block timed on a device beside the vendor's library on the same device, in one run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_layout.hpp"
#include "bench/ceiling.hpp"

namespace samebits::tools {

struct DeviceBenchOptions {
  bool both = false;  // gradients too, not the forward alone
  bool baseline = true;
};

// One rank: a layout of several would be played by one device, one rank behind the other.
class DeviceBench {
 public:
  virtual ~DeviceBench() = default;

  // Each sample is one call's share of a replay.
  virtual BenchSamples time(const Contract& contract, std::int64_t tokens, Direction direction,
                            int repeats) = 0;

  virtual const Ceiling& ceiling() const = 0;
  virtual const std::string& baseline() const = 0;  // empty: none
  virtual const std::vector<std::string>& notes() const = 0;
};

// `most` is on the host; its tokens are the most that can be asked for. Throws Error(environment) in a build
// without CUDA.
std::unique_ptr<DeviceBench> make_cuda_bench(const Compute& compute, const BlockCase& most,
                                             const DeviceBenchOptions& options);

}  // namespace samebits::tools
