#include "bench/cuda_replay.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/cuda_kernels.hpp"
#include "block/process_group.hpp"

namespace samebits::tools {
namespace {

// Longer than a rank needs to enqueue a meeting, two events and a graph.
constexpr std::uint64_t kHoldNanoseconds = 300'000;

}  // namespace

CudaReplay::CudaReplay(std::shared_ptr<Transport> host, std::shared_ptr<Transport> device,
                       cudaStream_t stream)
    : host_(std::move(host)),
      device_(std::move(device)),
      stream_(stream),
      begin_(make_event()),
      end_(make_event()),
      meeting_(make_memory(static_cast<std::size_t>(host_->size()))) {
  check(cudaMemset(meeting_.get(), 0, static_cast<std::size_t>(host_->size())), "preparing a meeting");
  check(cudaStreamSynchronize(nullptr), "preparing a meeting");
}

double CudaReplay::microseconds(cudaGraphExec_t graph) {
  exchange_nothing(*host_, MemorySpace::host);
  launch_hold(kHoldNanoseconds, stream_);
  if (device_) {
    auto* const bytes = static_cast<unsigned char*>(meeting_.get());
    const std::vector<std::size_t> one_each(static_cast<std::size_t>(device_->size()), 1);
    device_->all_gather(bytes + device_->rank(), bytes, one_each, MemorySpace::cuda, {stream_});
  }
  check(cudaEventRecord(begin_.get(), stream_), "recording an event");
  check(cudaGraphLaunch(graph, stream_), "replaying a graph");
  check(cudaEventRecord(end_.get(), stream_), "recording an event");
  check(cudaEventSynchronize(end_.get()), "waiting for a replay");
  // Streams of a group whose rank was lost are let go, and the time means nothing: the next call says so.
  if (device_) exchange_nothing(*device_, MemorySpace::cuda);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "reading the time between events");
  return static_cast<double>(milliseconds) * 1000;
}

double CudaReplay::most(double mine) const {
  std::vector<double> all(static_cast<std::size_t>(host_->size()));
  const std::vector<std::size_t> bytes(all.size(), sizeof mine);
  host_->all_gather(&mine, all.data(), bytes, MemorySpace::host, {});
  return *std::max_element(all.begin(), all.end());
}

}  // namespace samebits::tools
