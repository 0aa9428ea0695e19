// An all-gather of few bytes among GPUs that reach each other's memory, in one kernel a rank: each stores its
// bytes into a mailbox of every other rank and takes the others' out of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.hpp"

namespace samebits::transport::nccl {

inline constexpr int kMostMailboxRanks = 8;

// Eight bytes of a message, and twice the number of the collective that they belong to. It is written and
// read as a whole: who sees the numbers sees the bytes, and nobody needs a fence. Zero where nothing has
// arrived.
struct alignas(16) MailLine {
  std::uint32_t low, low_turn, high, high_turn;
};
inline constexpr std::size_t kLineBytes = 8;  // of a message

// A rank's own: which collective is next, and how many blocks of the present one are through.
struct MailTurn {
  std::uint32_t next, blocks;
};

struct MailboxGather {
  int rank = 0, size = 1;
  const unsigned char* send = nullptr;
  unsigned char* receive = nullptr;
  std::uint64_t bytes[kMostMailboxRanks] = {};  // from rank r
  // Of rank r, [2][size][lines]: collectives take turns with the halves, and a sender has its part of each.
  // A rank fills a half again only after it has heard from its owner in between, who had emptied it by then.
  MailLine* boxes[kMostMailboxRanks] = {};
  std::uint64_t lines = 0;
  MailTurn* turn = nullptr;
  // What kernels before this one have written into the others' memory is there for whoever has this message.
  bool vouches = false;
  const std::uint32_t* abandoned = nullptr;  // nonzero: nobody waits any longer
};

cudaError_t launch_mailbox_gather(const MailboxGather& gather, cudaStream_t stream);

}  // namespace samebits::transport::nccl
