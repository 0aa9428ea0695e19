// An exchange of many bytes among GPUs that reach each other's memory, in one kernel a rank: pieces of each
// message travel through slots in the receiver's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.hpp"
#include "transport/mailbox_gather.hpp"

namespace samebits::transport::nccl {

// A piece is seen by the receiver when all of it has arrived, which takes microseconds to be sure of: pieces
// are large, and the next one is on its way meanwhile.
inline constexpr std::size_t kSlotBytes = 128 << 10;
inline constexpr int kSlots = 2;  // of a lane

// Blocks that serve one other rank, each a lane of pieces of its own.
inline constexpr int lanes_of(int size) { return size > 1 ? 64 / (size - 1) : 1; }

// What a lane of two ranks has counted since it was opened: one writes, the other looks. Differences count,
// so they may pass 2^32.
struct alignas(64) LaneCounts {
  std::uint32_t arrived;         // pieces that lie in the slots here; the sender's to write
  std::uint32_t consumed;        // pieces of ours that have left the slots there; the receiver's to write
  std::uint32_t sent, received;  // this rank's own
};

// Messages between this rank and one other, which may be itself.
struct PairMessages {
  const unsigned char* send = nullptr;
  unsigned char* receive = nullptr;
  std::uint64_t send_bytes = 0, receive_bytes = 0;
  unsigned char* slots_there = nullptr;  // ours, in the other's memory: [lane][kSlots][kSlotBytes]
  const unsigned char* slots_here = nullptr;
  LaneCounts* there = nullptr;  // of each lane, in the other's memory
  LaneCounts* here = nullptr;
};

struct MailboxStream {
  int rank = 0, size = 1;
  PairMessages with[kMostMailboxRanks] = {};
  const std::uint32_t* abandoned = nullptr;
};

cudaError_t launch_mailbox_stream(const MailboxStream& stream, cudaStream_t queue);

}  // namespace samebits::transport::nccl
