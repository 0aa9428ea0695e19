// Mailboxes that the ranks of a group keep for each other's messages, where every rank reaches every other's
// memory: GPUs of one machine. One kernel an exchange, in a fraction of NCCL's time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "samebits/memory.hpp"
#include "samebits/transport.hpp"
#include "transport/nccl_abi.hpp"
#include "transport/nccl_peers.hpp"

namespace samebits::transport::nccl {

class Mailbox {
 public:
  // Gathers as many bytes of every rank of the group, from host memory to host memory.
  using Gather = std::function<void(const void* mine, void* all, std::size_t bytes)>;

  // Collective over the group. Null on all ranks where one of them does not want any, or cannot reach
  // another's memory.
  static std::unique_ptr<Mailbox> open(const Gather& gather, const std::vector<Identity>& ranks, int rank,
                                       int device, MemorySpace space, bool wanted);
  virtual ~Mailbox() = default;

  virtual Result all_gather(const void* send, void* receive, std::span<const std::size_t> bytes,
                            Queue queue) noexcept = 0;
  virtual Result all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                            std::span<const std::size_t> receive_bytes, Queue queue) noexcept = 0;
  // Collective; `gather` as in open(). Null on all ranks where one of them cannot reach another's memory.
  virtual std::shared_ptr<Window> open_window(const Gather& gather, const std::shared_ptr<void>& memory) = 0;

  // Returns when what was enqueued is done.
  virtual Result drain() noexcept = 0;
  // Whoever waits is let go, and what he received is worthless.
  virtual void abandon() noexcept = 0;
};

}  // namespace samebits::transport::nccl
