#include <algorithm>

#include "transport/mailbox_gather.hpp"
#include "transport/mailbox_kernel.cuh"

namespace samebits::transport::nccl {
namespace {

constexpr int kThreads = 512;
constexpr int kLinesAtOnce = 4;  // of a thread, on their way together
constexpr int kMostBlocks = 32;  // the compute that goes on beside this keeps its multiprocessors
constexpr std::uint32_t kArrived = 1U << 31;
constexpr int kLooks = 1 << 10;  // at a line, before it asks whether to go on

__device__ void put(MailLine* line, std::uint64_t word, std::uint32_t turn) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(line),
               "r"(static_cast<std::uint32_t>(word)), "r"(turn), "r"(static_cast<std::uint32_t>(word >> 32))
               : "memory");
}

__device__ MailLine look(const MailLine* line) {
  MailLine seen;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(seen.low), "=r"(seen.low_turn), "=r"(seen.high), "=r"(seen.high_turn)
               : "l"(line)
               : "memory");
  return seen;
}

// Word i of a message; its last one may be short, and it may lie anywhere.
__device__ std::uint64_t word_at(const unsigned char* message, std::uint64_t i, std::uint64_t bytes) {
  const unsigned char* const from = message + i * kLineBytes;
  const std::uint64_t left = bytes - i * kLineBytes;
  if (left >= kLineBytes && reinterpret_cast<std::uintptr_t>(from) % kLineBytes == 0)
    return *reinterpret_cast<const std::uint64_t*>(from);
  std::uint64_t word = 0;
  for (std::uint64_t b = 0; b < kLineBytes && b < left; ++b)
    word |= static_cast<std::uint64_t>(from[b]) << (8 * b);
  return word;
}

__device__ void set_word(unsigned char* message, std::uint64_t i, std::uint64_t bytes, std::uint64_t word) {
  unsigned char* const to = message + i * kLineBytes;
  const std::uint64_t left = bytes - i * kLineBytes;
  if (left >= kLineBytes && reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0) {
    *reinterpret_cast<std::uint64_t*>(to) = word;
    return;
  }
  for (std::uint64_t b = 0; b < kLineBytes && b < left; ++b)
    to[b] = static_cast<unsigned char>(word >> (8 * b));
}

// One at least: a rank without bytes still says that it has come this far.
__host__ __device__ std::uint64_t lines_of(std::uint64_t bytes) {
  return bytes > kLineBytes ? (bytes + kLineBytes - 1) / kLineBytes : 1;
}

__device__ std::uint64_t bytes_before(const MailboxGather& gather, int rank) {
  std::uint64_t before = 0;
  for (int r = 0; r < rank; ++r) before += gather.bytes[r];
  return before;
}

__device__ void send_own(const MailboxGather& gather, std::uint32_t turn, std::uint64_t at,
                         std::uint64_t step) {
  const std::uint64_t bytes = gather.bytes[gather.rank], count = lines_of(bytes);
  const std::uint64_t part = ((turn % 2) * gather.size + gather.rank) * gather.lines;
  unsigned char* const own = gather.receive + bytes_before(gather, gather.rank);
  for (std::uint64_t first = at; first < count; first += step * kLinesAtOnce) {
    std::uint64_t words[kLinesAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kLinesAtOnce; ++k) {
      if (first + k * step < count) words[k] = word_at(gather.send, first + k * step, bytes);
    }
    for (int p = 1; p < gather.size; ++p) {
      MailLine* const box = gather.boxes[(gather.rank + p) % gather.size] + part;
#pragma unroll
      for (int k = 0; k < kLinesAtOnce; ++k) {
        if (first + k * step < count) put(box + first + k * step, words[k], turn | kArrived);
      }
    }
    if (own == gather.send) continue;
#pragma unroll
    for (int k = 0; k < kLinesAtOnce; ++k) {
      if (first + k * step < count) set_word(own, first + k * step, bytes, words[k]);
    }
  }
}

// False when it was told to wait no longer.
__device__ bool take(const MailboxGather& gather, int from, std::uint32_t turn, std::uint64_t at,
                     std::uint64_t step) {
  const std::uint64_t bytes = gather.bytes[from], count = lines_of(bytes);
  MailLine* const box = gather.boxes[gather.rank] + ((turn % 2) * gather.size + from) * gather.lines;
  unsigned char* const to = gather.receive + bytes_before(gather, from);
  for (std::uint64_t first = at; first < count; first += step * kLinesAtOnce) {
    MailLine seen[kLinesAtOnce];
    for (int looks = 1;; ++looks) {
      bool all = true;
#pragma unroll
      for (int k = 0; k < kLinesAtOnce; ++k) {
        const std::uint64_t i = first + k * step < count ? first + k * step : first;
        seen[k] = look(box + i);
        all = all && seen[k].low_turn == (turn | kArrived) && seen[k].high_turn == (turn | kArrived);
      }
      if (all) break;
      if (looks % kLooks == 0 && *static_cast<const volatile std::uint32_t*>(gather.abandoned) != 0)
        return false;
    }
#pragma unroll
    for (int k = 0; k < kLinesAtOnce; ++k) {
      const std::uint64_t i = first + k * step;
      if (i >= count) continue;
      set_word(to, i, bytes, seen[k].low | static_cast<std::uint64_t>(seen[k].high) << 32);
      put(box + i, 0, 0);
    }
  }
  return true;
}

__global__ void __launch_bounds__(kThreads)
    mailbox_gather_kernel(const __grid_constant__ MailboxGather gather) {
  begin_early();
  const std::uint32_t turn = *static_cast<const volatile std::uint32_t*>(&gather.turn->next);
  const std::uint64_t at = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  if (gather.vouches) __threadfence_system();
  send_own(gather, turn, at, step);
  for (int p = 1; p < gather.size; ++p) {
    if (!take(gather, (gather.rank + p) % gather.size, turn, at, step)) return;
  }
  if (gather.vouches) __threadfence_system();
  __syncthreads();
  // All blocks have read the turn before the last of them moves it on.
  if (threadIdx.x == 0 && atomicAdd(&gather.turn->blocks, 1U) == gridDim.x - 1) {
    gather.turn->blocks = 0;
    gather.turn->next = (turn + 1) % kArrived;
  }
}

}  // namespace

cudaError_t launch_mailbox_gather(const MailboxGather& gather, cudaStream_t stream) {
  const std::uint64_t most = lines_of(*std::max_element(gather.bytes, gather.bytes + gather.size));
  const std::uint64_t blocks = (most + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks));
  return launch_early(mailbox_gather_kernel, grid, kThreads, stream, gather);
}

}  // namespace samebits::transport::nccl
