// Becoming a rank of a group.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "samebits/memory.hpp"
#include "transport/nccl_library.hpp"
#include "transport/nccl_mailbox.hpp"
#include "transport/nccl_peers.hpp"

namespace samebits::transport::nccl {

struct Joined {
  Comm* comm = nullptr;
  std::vector<Identity> identities;  // a rank each
  std::unique_ptr<Mailbox> mailbox;  // null where the group has none
};

struct JoinRequest {
  std::shared_ptr<const Library> library;
  UniqueId id{};
  int rank = 0, size = 1, device = 0;
  MemorySpace space = MemorySpace::cuda;
  bool mailbox = true;
};

// Collective over the group. On return all connections stand, so that later calls do not wait for another
// rank on the host, also while a queue is captured. Throws Error(lost_rank) when the others are not there
// within `seconds`, and whatever `check`, called now and then, throws.
Joined join(const JoinRequest& request, double seconds, const std::function<void()>& check);

}  // namespace samebits::transport::nccl
