// CUDA as the tests use it beside the engine: comparisons that stay on the device, work that disturbs it,
// graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "samebits/memory.hpp"

namespace samebits::test {

// Throws std::runtime_error with CUDA's words.
void check_cuda(cudaError_t code);

inline cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

// Adds to *count how many of the bytes differ.
void count_differing_bytes(const void* a, const void* b, std::size_t bytes, unsigned long long* count,
                           cudaStream_t stream);

// All 2^32 pairs of bf16: how many sums of the fma kernels' packed addition are not the contract's bf16 node,
// and one of those, lower operand in the lower half.
struct PackedSums {
  unsigned long long wrong = 0;
  std::uint32_t pair = 0;
};
PackedSums check_packed_sums();

// `blocks` blocks that compute for so many clock cycles and write memory meanwhile.
void disturb(unsigned blocks, std::int64_t cycles, float* scratch, cudaStream_t stream);
inline constexpr unsigned kMostDisturbing = 264;

// Work on a stream of its own, in pieces of changing size, for as long as the object lives: the blocks of
// other streams are scheduled otherwise each time.
class BusyStream {
 public:
  explicit BusyStream(int device);
  ~BusyStream();
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// What `enqueue` puts on the stream, as a graph to launch again and again.
class Captured {
 public:
  Captured(cudaStream_t stream, const std::function<void()>& enqueue);
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  void launch();
  std::size_t nodes() const { return nodes_; }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::size_t nodes_ = 0;
};

std::size_t free_device_memory();

void use_device(int device);  // this thread, from now on

}  // namespace samebits::test
