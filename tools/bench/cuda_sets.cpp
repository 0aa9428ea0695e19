#include "bench/cuda_sets.hpp"

#include "bench/rotation.hpp"

namespace samebits::tools {
namespace {

constexpr int kFewestCalls = 5;  // of a graph

std::size_t bytes_of(const ConstView& view) {
  return static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
}

}  // namespace

CudaSets::CudaSets(const BlockCase& most, Device device, bool both) : device_(device) {
  int cache_bytes = 0;
  check(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device.index),
        "asking for the cache's size");
  const auto [hidden, intermediate] = most.shape;
  const Rotation rotation = rotation_for(3 * 2 * hidden * intermediate, cache_bytes, kFewestCalls);
  beyond_cache_ = rotation.beyond_cache;
  calls_ = rotation.calls;
  for (std::int64_t i = 0; i < rotation.sets; ++i) {
    const BlockSet* const first = sets_.empty() ? nullptr : &sets_.front();
    const auto fill = [&](const ConstView& host, View BlockSet::*which) {
      return filled(host, first != nullptr ? &(first->*which) : nullptr);
    };
    BlockSet set;
    set.x = fill(most.x, &BlockSet::x);
    set.gate = fill(most.gate, &BlockSet::gate);
    set.up = fill(most.up, &BlockSet::up);
    set.down = fill(most.down, &BlockSet::down);
    set.y = make(most.tokens, hidden);
    if (both) {
      set.dy = fill(most.dy, &BlockSet::dy);
      set.dx = make(most.tokens, hidden);
      set.d_gate = make(intermediate, hidden);
      set.d_up = make(intermediate, hidden);
      set.d_down = make(hidden, intermediate);
    }
    sets_.push_back(set);
  }
}

View CudaSets::make(std::int64_t rows, std::int64_t cols) {
  View view{nullptr, DType::bf16, rows, cols, cols, 1, device_};
  memory_.push_back(make_memory(bytes_of(view)));
  view.data = memory_.back().get();
  return view;
}

// From the host, or as the first set has it: other addresses are all that the cache knows.
View CudaSets::filled(const ConstView& host, const View* first) {
  const View view = make(host.rows, host.cols);
  check(cudaMemcpy(view.data, first != nullptr ? first->data : host.data, bytes_of(view), cudaMemcpyDefault),
        "filling the bench's operands");
  return view;
}

}  // namespace samebits::tools
