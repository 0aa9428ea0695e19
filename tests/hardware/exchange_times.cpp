// Microseconds of one exchange between two GPUs, through mailboxes and through NCCL: ranks as threads, a GPU
// each, graphs of ten calls, the median of eight launches. Runs by hand on a machine with two GPUs, with the
// library built:
//
//   g++ -std=c++20 -O2 -Iinclude -I/usr/local/cuda/include tests/hardware/exchange_times.cpp -o
//   exchange_times
//       build/libsamebits.a /usr/local/cuda/lib64/libcudart_static.a -lfmt -ldl -lpthread -lrt -lmpi &&
//       ./exchange_times
#include <cuda_runtime_api.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "samebits/transport.hpp"

namespace {

using namespace samebits;

constexpr std::size_t kMost = std::size_t{64} << 20;
constexpr int kCalls = 10, kLaunches = 8;

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  std::exit(3);
}

void measure(int rank, const std::shared_ptr<Transport>& host, bool mailboxes, std::barrier<>& together) {
  check(cudaSetDevice(rank));
  NcclOptions options;
  options.bootstrap = host;
  options.device = rank;
  options.mailboxes = mailboxes;
  const auto transport = nccl_transport(options);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, 2 * kMost));
  check(cudaMalloc(&to, 2 * kMost));
  for (const bool all_to_all : {false, true}) {
    for (std::size_t bytes = 8 << 10; bytes <= kMost; bytes *= 2) {
      const std::vector<std::size_t> of_rank(2, bytes);
      const auto call = [&] {
        if (all_to_all) {
          transport->all_to_all(from, of_rank, to, of_rank, MemorySpace::cuda, {stream});
        } else {
          transport->all_gather(from, to, of_rank, MemorySpace::cuda, {stream});
        }
      };
      together.arrive_and_wait();  // what allocates may wait for a kernel that waits for the other rank
      call();
      check(cudaStreamSynchronize(stream));
      together.arrive_and_wait();
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t launch = nullptr;
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < kCalls; ++i) call();
      check(cudaStreamEndCapture(stream, &graph));
      check(cudaGraphInstantiate(&launch, graph, 0));
      cudaEvent_t before = nullptr, after = nullptr;
      check(cudaEventCreate(&before));
      check(cudaEventCreate(&after));
      std::vector<float> times(kLaunches);
      for (float& time : times) {
        together.arrive_and_wait();
        check(cudaEventRecord(before, stream));
        check(cudaGraphLaunch(launch, stream));
        check(cudaEventRecord(after, stream));
        check(cudaStreamSynchronize(stream));
        check(cudaEventElapsedTime(&time, before, after));
      }
      std::sort(times.begin(), times.end());
      if (rank == 0) {
        std::printf("%-9s %-10s %9zu bytes %8.1f us\n", mailboxes ? "mailboxes" : "NCCL",
                    all_to_all ? "all-to-all" : "all-gather", bytes,
                    static_cast<double>(times[kLaunches / 2]) * 1e3 / kCalls);
        std::fflush(stdout);
      }
      together.arrive_and_wait();
    }
  }
}

}  // namespace

int main() {
  for (const bool mailboxes : {true, false}) {
    std::barrier<> together(2);
    run_local(2, [&](int rank, const std::shared_ptr<Transport>& host) {
      measure(rank, host, mailboxes, together);
    });
  }
}
