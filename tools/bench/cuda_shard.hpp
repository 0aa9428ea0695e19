// What one rank of a layout holds on its device: its slices of the weights, so many times over that
// consecutive calls never find theirs in the cache, and its rows of the tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/cuda_resources.hpp"
#include "samebits/plan.hpp"

namespace samebits::tools {

// Packed matrices on one device.
class CudaTensors {
 public:
  explicit CudaTensors(Device device) : device_(device) {}

  View make(std::int64_t rows, std::int64_t cols);
  // Of the host's values, or of those that `there`, packed and on this device, holds.
  View filled(const ConstView& host);
  View copied(const ConstView& there);

 private:
  Device device_;
  std::vector<CudaMemory> memory_;
};

struct ShardSet {
  Weights weights;
  View d_gate, d_up, d_down;  // [I_r, H], [I_r, H], [H, I_r]; with backward
};

class CudaShard {
 public:
  // `slices`: the rank's, views into whole weights on the host, as Plan::slice makes them on a device. What
  // no call reads is left out.
  CudaShard(const Weights& slices, const RankShard& shard, bool backward, Device device);

  std::int64_t forward_bytes() const { return forward_bytes_; }  // of weights that a forward reads
  const std::vector<ShardSet>& sets() const { return sets_; }

 private:
  std::int64_t forward_bytes_ = 0;
  CudaTensors tensors_;
  std::vector<ShardSet> sets_;
};

struct TokenSet {
  View x, dy, y, dx;  // the rank's rows of [M, H]; dy and dx with backward
};

class CudaTokens {
 public:
  // The rank's rows, on the host; dy is empty without backward.
  CudaTokens(const ConstView& x, const ConstView& dy, std::size_t sets, Device device);
  const std::vector<TokenSet>& sets() const { return sets_; }

 private:
  CudaTensors tensors_;
  std::vector<TokenSet> sets_;
};

std::int64_t cache_bytes_of(Device device);

}  // namespace samebits::tools
