#include <algorithm>

#include "transport/mailbox_kernel.cuh"
#include "transport/mailbox_stream.hpp"

namespace samebits::transport::nccl {
namespace {

constexpr int kTeam = 128;  // threads that send, and as many that receive
constexpr int kThreads = 2 * kTeam;
constexpr int kWordsAtOnce = 8;  // of 16 bytes, of a thread
constexpr int kLooks = 1 << 10;  // at a count, before it asks whether to go on
constexpr std::uint64_t kLeastPiece = 2048;

__device__ std::uint32_t read_count(const std::uint32_t* count) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(count) : "memory");
  return value;
}
__device__ void write_count(std::uint32_t* count, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(count), "r"(value) : "memory");
}

// The threads of a team wait for each other.
__device__ void meet_team(int team) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(kTeam) : "memory");
}

// All threads of a team. Memory of slots is read past the first cache: others write it.
template <class Word, int kAtOnce>
__device__ std::uint64_t copy_words(unsigned char* to, const unsigned char* from, std::uint64_t bytes,
                                    int thread) {
  const std::uint64_t count = bytes / sizeof(Word);
  for (std::uint64_t first = 0; first < count; first += kTeam * kAtOnce) {
    Word word[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(thread + i * kTeam);
      if (at < count) word[i] = __ldcg(reinterpret_cast<const Word*>(from) + at);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(thread + i * kTeam);
      if (at < count) reinterpret_cast<Word*>(to)[at] = word[i];
    }
  }
  return count * sizeof(Word);
}

__device__ void copy_piece(unsigned char* to, const unsigned char* from, std::uint64_t bytes, int thread) {
  const auto address = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  std::uint64_t done = 0;
  if (address % sizeof(uint4) == 0) {
    done = copy_words<uint4, kWordsAtOnce>(to, from, bytes, thread);
  } else if (address % sizeof(std::uint32_t) == 0) {
    done = copy_words<std::uint32_t, 1>(to, from, bytes, thread);
  }
  copy_words<unsigned char, 1>(to + done, from + done, bytes - done, thread);
}

__host__ __device__ std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

// How a message is cut, so that all lanes have a part of it: both ends find the same.
__host__ __device__ std::uint64_t piece_bytes(std::uint64_t bytes, int lanes) {
  const std::uint64_t even = (bytes + lanes - 1) / lanes;
  const std::uint64_t piece = (even + 127) / 128 * 128;
  return smaller(piece > kLeastPiece ? piece : kLeastPiece, kSlotBytes);
}

struct Lane {
  int index, count;  // of the lanes of a pair
  int thread;        // of its team
  const std::uint32_t* abandoned;
  bool* stopped;  // shared by the team

  __device__ bool is_first() const { return thread == 0; }
  // Returns when reached(*count), on all threads of the team; false: nobody waits any longer.
  template <class Reached>
  __device__ bool wait(int team, const std::uint32_t* seen, const Reached& reached) const {
    if (is_first()) {
      for (int looks = 1; !reached(read_count(seen)); ++looks) {
        if (looks % kLooks == 0 && *static_cast<const volatile std::uint32_t*>(abandoned) != 0) {
          *stopped = true;
          break;
        }
      }
    }
    meet_team(team);
    return !*stopped;
  }
};

__device__ void send_pieces(const PairMessages& pair, const Lane& lane) {
  constexpr int kTeamNumber = 0;
  LaneCounts* const here = pair.here + lane.index;
  unsigned char* const slots = pair.slots_there + lane.index * (kSlots * kSlotBytes);
  const std::uint64_t piece = piece_bytes(pair.send_bytes, lane.count);
  std::uint32_t sent = here->sent;
  for (std::uint64_t at = lane.index * piece; at < pair.send_bytes; at += lane.count * piece) {
    const auto is_free = [&](std::uint32_t consumed) { return sent - consumed < kSlots; };
    if (!lane.wait(kTeamNumber, &here->consumed, is_free)) return;
    copy_piece(slots + sent % kSlots * kSlotBytes, pair.send + at, smaller(piece, pair.send_bytes - at),
               lane.thread);
    ++sent;
    meet_team(kTeamNumber);
    if (lane.is_first()) {
      __threadfence_system();
      write_count(&pair.there[lane.index].arrived, sent);
      here->sent = sent;
    }
  }
}

__device__ void receive_pieces(const PairMessages& pair, const Lane& lane) {
  constexpr int kTeamNumber = 1;
  LaneCounts* const here = pair.here + lane.index;
  const unsigned char* const slots = pair.slots_here + lane.index * (kSlots * kSlotBytes);
  const std::uint64_t piece = piece_bytes(pair.receive_bytes, lane.count);
  std::uint32_t received = here->received;
  for (std::uint64_t at = lane.index * piece; at < pair.receive_bytes; at += lane.count * piece) {
    const auto is_there = [&](std::uint32_t arrived) { return arrived != received; };
    if (!lane.wait(kTeamNumber, &here->arrived, is_there)) return;
    copy_piece(pair.receive + at, slots + received % kSlots * kSlotBytes,
               smaller(piece, pair.receive_bytes - at), lane.thread);
    ++received;
    meet_team(kTeamNumber);
    if (lane.is_first()) {
      __threadfence_system();
      write_count(&pair.there[lane.index].consumed, received);
      here->received = received;
    }
  }
}

// Block b is lane b / size of the pair with the rank b % size further on.
__global__ void __launch_bounds__(kThreads, 2)
    mailbox_stream_kernel(const __grid_constant__ MailboxStream task) {
  __shared__ bool stopped[2];
  const int further = static_cast<int>(blockIdx.x) % task.size,
            index = static_cast<int>(blockIdx.x) / task.size;
  const int team = static_cast<int>(threadIdx.x) / kTeam, thread = static_cast<int>(threadIdx.x) % kTeam;
  if (threadIdx.x < 2) stopped[threadIdx.x] = false;
  __syncthreads();
  begin_early();
  const PairMessages& pair = task.with[(task.rank + further) % task.size];
  const Lane lane{index, lanes_of(task.size), thread, task.abandoned, stopped + team};
  if (further == 0) {
    if (pair.send == pair.receive) return;
    const std::uint64_t step = std::uint64_t{gridDim.x / static_cast<unsigned>(task.size)} * 2 * kSlotBytes;
    for (std::uint64_t at = (2 * index + team) * kSlotBytes; at < pair.send_bytes; at += step)
      copy_piece(pair.receive + at, pair.send + at, smaller(kSlotBytes, pair.send_bytes - at), thread);
  } else if (team == 0) {
    send_pieces(pair, lane);
  } else {
    receive_pieces(pair, lane);
  }
}

}  // namespace

cudaError_t launch_mailbox_stream(const MailboxStream& stream, cudaStream_t queue) {
  const int lanes = lanes_of(stream.size);
  std::uint64_t most = 1;  // pieces of a message: lanes beyond have nothing to do
  for (int r = 0; r < stream.size; ++r) {
    for (const std::uint64_t bytes : {stream.with[r].send_bytes, stream.with[r].receive_bytes}) {
      const std::uint64_t piece = piece_bytes(bytes, lanes);
      most = std::max(most, (bytes + piece - 1) / piece);
    }
  }
  const auto blocks = static_cast<unsigned>(smaller(most, lanes) * stream.size);
  return launch_early(mailbox_stream_kernel, blocks, kThreads, queue, stream);
}

}  // namespace samebits::transport::nccl
