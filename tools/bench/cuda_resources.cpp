#include "bench/cuda_resources.hpp"

namespace samebits::tools {

CudaStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return CudaStream(stream);
}

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "creating an event");
  return CudaEvent(event);
}

CudaMemory make_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes > 0 ? bytes : 1), "allocating device memory for the bench");
  return CudaMemory(memory);
}

CudaGraph capture(cudaStream_t stream, const std::function<void()>& calls) {
  // Of this thread alone: another thread's work is none of the graph's business.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
  cudaGraph_t made = nullptr;
  try {
    calls();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &made));
    const std::unique_ptr<CUgraph_st, CudaRelease> broken(made);
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check(cudaStreamEndCapture(stream, &made), "ending a graph");
  const std::unique_ptr<CUgraph_st, CudaRelease> graph(made);
  cudaGraphExec_t instance = nullptr;
  check(cudaGraphInstantiate(&instance, graph.get(), 0), "making a graph");
  CudaGraph owned(instance);
  check(cudaGraphUpload(owned.get(), stream), "placing a graph on the device");
  check(cudaStreamSynchronize(stream), "placing a graph on the device");
  return owned;
}

double ReplayTimer::microseconds(cudaGraphExec_t graph) {
  check(cudaEventRecord(begin_.get(), stream_), "recording an event");
  check(cudaGraphLaunch(graph, stream_), "replaying a graph");
  check(cudaEventRecord(end_.get(), stream_), "recording an event");
  check(cudaEventSynchronize(end_.get()), "waiting for a replay");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "reading the time between events");
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace samebits::tools
