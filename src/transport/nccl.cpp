// Ranks that move device memory through NCCL, or RCCL: enqueued on the caller's stream, never waited for.
#include <fmt/format.h>

#include <algorithm>

#include "samebits/error.hpp"
#include "transport/group.hpp"
#include "transport/memory.hpp"
#include "transport/nccl_meet.hpp"
#include "transport/nccl_world.hpp"

namespace samebits {
namespace {

using transport::check_counts;
using transport::total;
using namespace transport::nccl;

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<World> world, Communicator& group)
      : world_(std::move(world)), group_(group) {}

  std::string name() const override { return "nccl"; }
  int rank() const override { return group_.members.rank; }
  int size() const override { return static_cast<int>(group_.members.of_world.size()); }
  bool reaches(MemorySpace space) const override { return space == world_->space(); }
  bool concurrent(MemorySpace space) const override { return reaches(space); }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    check_counts(bytes, size());
    check_space(space);
    const std::size_t most = *std::max_element(bytes.begin(), bytes.end()), all = total(bytes);
    if (all == 0) return world_->check();
    if (Mailbox* const box = group_.mailbox.get(); box != nullptr) {
      return world_->call(group_, queue, "all-gather",
                          [&](Comm*) { return box->all_gather(send, receive, bytes, queue); });
    }
    const Library& nccl = world_->library();
    if (all == most * bytes.size()) {
      return world_->call(group_, queue, "all-gather", [&](Comm* comm) {
        return nccl.all_gather(send, receive, most, kUint8, comm, queue.handle);
      });
    }
    if (all == most) {  // from one rank alone
      const auto root = static_cast<int>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
      return world_->call(group_, queue, "broadcast", [&](Comm* comm) {
        return nccl.broadcast(send, receive, most, kUint8, root, comm, queue.handle);
      });
    }
    auto* const to = static_cast<unsigned char*>(receive);
    copy_own(to + total(bytes.first(me())), send, bytes[me()], queue);
    exchange(queue, "all-gather", [&](Comm* comm, std::size_t r, std::size_t before) {
      Result result = send_to(comm, r, send, bytes[me()], queue);
      if (result == kSuccess) result = receive_from(comm, r, to + before, bytes[r], queue);
      return std::pair(result, bytes[r]);
    });
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    check_counts(send_bytes, size());
    check_counts(receive_bytes, size());
    check_space(space);
    const auto* const from = static_cast<const unsigned char*>(send);
    auto* const to = static_cast<unsigned char*>(receive);
    if (send_bytes[me()] != receive_bytes[me()]) {
      throw Error(ErrorCode::invalid_argument, fmt::format("rank {} sends itself {} bytes and expects {}",
                                                           rank(), send_bytes[me()], receive_bytes[me()]));
    }
    if (total(send_bytes) + total(receive_bytes) == 0) return world_->check();
    if (Mailbox* const box = group_.mailbox.get(); box != nullptr) {
      return world_->call(group_, queue, "all-to-all", [&](Comm*) {
        return box->all_to_all(send, send_bytes, receive, receive_bytes, queue);
      });
    }
    copy_own(to + total(receive_bytes.first(me())), from + total(send_bytes.first(me())), send_bytes[me()],
             queue);
    std::size_t sent = 0;
    exchange(queue, "all-to-all", [&](Comm* comm, std::size_t r, std::size_t before) {
      Result result = kSuccess;
      if (r != me()) result = send_to(comm, r, from + sent, send_bytes[r], queue);
      sent += send_bytes[r];
      if (result == kSuccess) result = receive_from(comm, r, to + before, receive_bytes[r], queue);
      return std::pair(result, receive_bytes[r]);
    });
  }

  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace space) override {
    if (!group_.mailbox || !reaches(space)) return nullptr;
    return group_.mailbox->open_window(
        [&](const void* mine, void* all, std::size_t bytes) { world_->gather(group_, mine, all, bytes); },
        memory);
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    const transport::Members part = transport::subgroup_of(group_.members, ranks);
    return std::make_shared<NcclTransport>(world_, world_->group(group_, part));
  }

  void abort(const std::string& reason) noexcept override { world_->abort(reason); }

 private:
  std::size_t me() const { return static_cast<std::size_t>(rank()); }

  void check_space(MemorySpace space) const {
    if (reaches(space)) return;
    throw Error(ErrorCode::invalid_argument,
                "the nccl transport was given memory of another kind than it moves");
  }

  void copy_own(void* to, const void* from, std::size_t bytes, Queue queue) {
    world_->check();
    if (bytes > 0 && to != from) transport::copy(to, from, bytes, world_->space(), queue);
  }

  // One group of calls: each(comm, r, bytes received from ranks before r) makes those that concern rank r,
  // and says what came of them and how many bytes r sends.
  template <class Each>
  void exchange(Queue queue, const char* what, const Each& each) {
    world_->call(group_, queue, what, [&](Comm* comm) {
      Result first = world_->library().group_start();
      if (first != kSuccess) return first;
      std::size_t before = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(size()) && first == kSuccess; ++r) {
        const auto [result, received] = each(comm, r, before);
        first = result;
        before += received;
      }
      const Result last = world_->library().group_end();
      return first != kSuccess ? first : last;
    });
  }

  Result send_to(Comm* comm, std::size_t r, const void* data, std::size_t bytes, Queue queue) const {
    if (r == me() || bytes == 0) return kSuccess;
    return world_->library().send(data, bytes, kUint8, static_cast<int>(r), comm, queue.handle);
  }
  Result receive_from(Comm* comm, std::size_t r, void* data, std::size_t bytes, Queue queue) const {
    if (r == me() || bytes == 0) return kSuccess;
    return world_->library().recv(data, bytes, kUint8, static_cast<int>(r), comm, queue.handle);
  }

  std::shared_ptr<World> world_;
  Communicator& group_;  // of the world
};

}  // namespace

std::shared_ptr<Transport> nccl_transport(const NcclOptions& options) {
  auto world = std::make_shared<World>(options);
  Communicator& whole = world->whole();
  return std::make_shared<NcclTransport>(std::move(world), whole);
}

std::string nccl_unique_id(const std::string& library) {
  const UniqueId id = make_id(*Library::load(library, transport::device_space()));
  return {std::begin(id.bytes), std::end(id.bytes)};
}

NcclStatus nccl_status(const std::string& library) {
  try {
    const auto found = Library::load(library, transport::device_space());
    return {true, found->path(), found->version(), {}};
  } catch (const Error& error) {
    return {false, {}, {}, error.what()};
  }
}

}  // namespace samebits
