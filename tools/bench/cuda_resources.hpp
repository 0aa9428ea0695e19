// What the CUDA runtime hands out, owned; and its answers as errors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "gpu/check.hpp"

namespace samebits::tools {

using cuda_names::check;

struct CudaRelease {
  void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
  void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
  void operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }
};

using CudaStream = std::unique_ptr<CUstream_st, CudaRelease>;
using CudaEvent = std::unique_ptr<CUevent_st, CudaRelease>;
using CudaGraph = std::unique_ptr<CUgraphExec_st, CudaRelease>;
using CudaMemory = std::unique_ptr<void, CudaRelease>;

CudaStream make_stream();
CudaEvent make_event();
CudaMemory make_memory(std::size_t bytes);

// What `calls` enqueues on the stream, as one graph.
CudaGraph capture(cudaStream_t stream, const std::function<void()>& calls);

// Replays graphs of one stream and times them by events.
class ReplayTimer {
 public:
  explicit ReplayTimer(cudaStream_t stream) : stream_(stream), begin_(make_event()), end_(make_event()) {}

  double microseconds(cudaGraphExec_t graph);

 private:
  cudaStream_t stream_;
  CudaEvent begin_, end_;
};

}  // namespace samebits::tools
