#include "bench/cuda_ceiling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cuda_kernels.hpp"
#include "bench/spread.hpp"

namespace samebits::tools {
namespace {

constexpr std::int64_t kBytes = std::int64_t{2} << 30;  // many times the cache
constexpr int kCalls = 5;                               // of a graph
constexpr int kReplays = 15;

// One call's share of the median replay.
double microseconds(cudaStream_t stream, const std::function<void()>& call) {
  call();
  check(cudaStreamSynchronize(stream), "measuring a ceiling");
  const CudaGraph graph = capture(stream, [&] {
    for (int i = 0; i < kCalls; ++i) call();
  });
  ReplayTimer timer(stream);
  timer.microseconds(graph.get());
  std::vector<double> samples;
  for (int replay = 0; replay < kReplays; ++replay)
    samples.push_back(timer.microseconds(graph.get()) / kCalls);
  return spread_of(samples).median;
}

PeakFlops product_rate(const CublasLt& blas, std::int64_t m, std::int64_t n, std::int64_t k,
                       cudaStream_t stream) {
  const auto random = [&](std::int64_t count) {
    CudaMemory memory = make_memory(static_cast<std::size_t>(count) * 2);
    launch_random(memory.get(), count, static_cast<std::uint32_t>(count), stream);
    return memory;
  };
  const CudaMemory a = random(m * k), b = random(n * k), c = random(m * n);
  const ProductOperands operands{a.get(), b.get(), c.get()};
  const Product product(blas, {.m = m, .n = n, .k = k, .b_transposed = true}, {operands}, stream);
  const double us = microseconds(stream, [&] { product.run(operands, stream); });
  const double flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return {fmt::format("bf16 {}x{}x{}", m, n, k), flops / us * 1e6};
}

}  // namespace

Ceiling measure_cuda_ceiling(const CublasLt* blas, cudaStream_t stream) {
  Ceiling ceiling;
  {
    const CudaMemory from = make_memory(kBytes), to = make_memory(kBytes),
                     sink = make_memory(sizeof(std::uint32_t));
    launch_random(from.get(), kBytes / 2, 7, stream);
    const double copied = microseconds(stream, [&] {
      check(cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, stream), "copying");
    });
    const double read = microseconds(
        stream, [&] { launch_read(from.get(), kBytes, static_cast<std::uint32_t*>(sink.get()), stream); });
    ceiling.copy_bandwidth = 2.0 * static_cast<double>(kBytes) / copied * 1e6;
    ceiling.read_bandwidth = static_cast<double>(kBytes) / read * 1e6;
  }
  ceiling.flops_are = "a large product by cuBLASLt, random values";
  if (blas == nullptr) return ceiling;
  ceiling.flops.push_back(product_rate(*blas, 2048, 4096, 24576, stream));
  ceiling.flops.push_back(product_rate(*blas, 8192, 8192, 8192, stream));
  return ceiling;
}

}  // namespace samebits::tools
