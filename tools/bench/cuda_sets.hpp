// Sets of the block's operands on a device, so many that consecutive calls never find theirs in the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/cuda_resources.hpp"
#include "block/layout_run.hpp"

namespace samebits::tools {

// Packed bf16; tokens as many as the largest call has.
struct BlockSet {
  View x, dy, y, dx;          // [M, H]
  View gate, up, down;        // [I, H], [I, H], [H, I]
  View d_gate, d_up, d_down;  // as the weights
};

class CudaSets {
 public:
  // `most` is on the host. dy and what backward writes are there for `both` alone.
  CudaSets(const BlockCase& most, Device device, bool both);

  const std::vector<BlockSet>& sets() const { return sets_; }

  // The set of call `i`, in a graph of calls() calls.
  const BlockSet& of_call(int i) const { return sets_[static_cast<std::size_t>(i) % sets_.size()]; }
  int calls() const { return calls_; }
  bool beyond_cache() const { return beyond_cache_; }

 private:
  View make(std::int64_t rows, std::int64_t cols);
  View filled(const ConstView& host, const View* first);

  Device device_;
  std::vector<CudaMemory> memory_;
  std::vector<BlockSet> sets_;
  int calls_ = 0;
  bool beyond_cache_ = true;
};

}  // namespace samebits::tools
