#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

#include "engine/cuda/fma/words.cuh"
#include "numerics/bf16.hpp"
#include "support/device.hpp"

namespace samebits::test {
namespace {

__global__ void count_differing_kernel(const unsigned char* a, const unsigned char* b, std::size_t bytes,
                                       unsigned long long* count) {
  unsigned long long differing = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += std::size_t{gridDim.x} * blockDim.x) {
    differing += a[i] != b[i] ? 1u : 0u;
  }
  if (differing > 0) atomicAdd(count, differing);
}

__global__ void disturb_kernel(std::int64_t cycles, float* scratch) {
  const std::int64_t begin = clock64();
  float* const mine = scratch + blockIdx.x * blockDim.x + threadIdx.x;
  float value = *mine;
  while (clock64() - begin < cycles) {
    for (int i = 0; i < 64; ++i) value = value * 1.0001f + 1.0f;
    *mine = value;
  }
}

__global__ void packed_sums_kernel(PackedSums* found) {
  const std::uint32_t a = blockIdx.x;
  for (std::uint32_t b = threadIdx.x; b < 65536; b += blockDim.x) {
    const auto node = [](std::uint32_t x, std::uint32_t y) {
      return std::uint32_t{numerics::round_bf16(numerics::widen(static_cast<numerics::Bf16>(x)) +
                                                numerics::widen(static_cast<numerics::Bf16>(y)))};
    };
    using namespace engine::cuda::fma_leaf;
    const std::uint32_t sums = canonical_two(add_two(a | b << 16, b | a << 16));
    if (sums == (node(a, b) | node(b, a) << 16)) continue;
    atomicAdd(&found->wrong, 1ULL);
    found->pair = a | b << 16;
  }
}

constexpr unsigned kDisturbingThreads = 256;

}  // namespace

void check_cuda(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(code));
}

void count_differing_bytes(const void* a, const void* b, std::size_t bytes, unsigned long long* count,
                           cudaStream_t stream) {
  if (bytes == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((bytes + 255) / 256, 1024));
  count_differing_kernel<<<blocks, 256, 0, stream>>>(static_cast<const unsigned char*>(a),
                                                     static_cast<const unsigned char*>(b), bytes, count);
  check_cuda(cudaGetLastError());
}

PackedSums check_packed_sums() {
  PackedSums* device = nullptr;
  PackedSums found;
  check_cuda(cudaMalloc(&device, sizeof found));
  check_cuda(cudaMemcpy(device, &found, sizeof found, cudaMemcpyHostToDevice));
  packed_sums_kernel<<<65536, 256>>>(device);
  check_cuda(cudaGetLastError());
  check_cuda(cudaMemcpy(&found, device, sizeof found, cudaMemcpyDeviceToHost));
  check_cuda(cudaFree(device));
  return found;
}

void disturb(unsigned blocks, std::int64_t cycles, float* scratch, cudaStream_t stream) {
  disturb_kernel<<<std::min(blocks, kMostDisturbing), kDisturbingThreads, 0, stream>>>(cycles, scratch);
  check_cuda(cudaGetLastError());
}

BusyStream::BusyStream(int device)
    : thread_([this, device] {
        check_cuda(cudaSetDevice(device));
        cudaStream_t stream = nullptr;
        float* scratch = nullptr;
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        check_cuda(cudaMalloc(&scratch, sizeof(float) * kMostDisturbing * kDisturbingThreads));
        check_cuda(cudaMemsetAsync(scratch, 0, sizeof(float) * kMostDisturbing * kDisturbingThreads, stream));
        std::mt19937_64 random(99);
        while (!stop_) {
          for (int i = 0; i < 4; ++i)
            disturb(1 + static_cast<unsigned>(random() % kMostDisturbing),
                    static_cast<std::int64_t>(random() % 300000), scratch, stream);
          check_cuda(cudaStreamSynchronize(stream));
        }
        check_cuda(cudaFree(scratch));
        check_cuda(cudaStreamDestroy(stream));
      }) {}

BusyStream::~BusyStream() {
  stop_ = true;
  thread_.join();
}

Captured::Captured(cudaStream_t stream, const std::function<void()>& enqueue) : stream_(stream) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph_));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph_));
  check_cuda(cudaGraphGetNodes(graph_, nullptr, &nodes_));
  check_cuda(cudaGraphInstantiate(&exec_, graph_, 0));
}

Captured::~Captured() {
  if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
  if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
}

void Captured::launch() { check_cuda(cudaGraphLaunch(exec_, stream_)); }

std::size_t free_device_memory() {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return free;
}

void use_device(int device) { check_cuda(cudaSetDevice(device)); }

}  // namespace samebits::test
