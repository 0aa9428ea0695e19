// All groups that one rank is in, and the thread that watches over them. What NCCL calls a failure, and a
// group that waits for too long, ends every group of the rank: kernels that wait on the device are let go,
// and every later call says why.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "samebits/transport.hpp"
#include "transport/group.hpp"
#include "transport/nccl_device.hpp"
#include "transport/nccl_library.hpp"
#include "transport/nccl_mailbox.hpp"
#include "transport/nccl_meet.hpp"
#include "transport/nccl_peers.hpp"

namespace samebits::transport::nccl {

using Clock = std::chrono::steady_clock;

// This rank's end of a group. The world's lock guards all but `members` and what
// `mailbox` points to.
struct Communicator {
  Communicator(Members group, int device, MemorySpace space)
      : members(std::move(group)), probe(device, space) {}

  const Members members;
  Comm* comm = nullptr;              // null when it is aborted or at its end
  std::unique_ptr<Mailbox> mailbox;  // null: all goes through NCCL
  Probe probe;
  bool calling = false;  // a thread is inside NCCL with it
  unsigned long long calls = 0;

  // What the watching thread saw: how long the newest call has been at work, if it is.
  unsigned long long seen_call = 0;
  bool busy = false;
  Clock::time_point since{};
};

class World {
 public:
  explicit World(const NcclOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Library& library() const { return *library_; }
  MemorySpace space() const { return space_; }
  Communicator& whole() const { return *groups_.front(); }

  // The group of `part`, made when it is first asked for; collective over it. `parent` holds all of it.
  Communicator& group(Communicator& parent, const Members& part);

  // body(comm) makes calls that enqueue on the queue, and returns the first result that is no success. Throws
  // Error(lost_rank) when this rank's groups have failed, before or meanwhile.
  template <class Body>
  void call(Communicator& group, Queue queue, const char* what, const Body& body) {
    Comm* const comm = begin(group, queue);
    end(group, queue, what, body(comm));
  }

  // As many bytes of every rank of the group, from host memory to host memory. Collective, and waited for.
  void gather(Communicator& group, const void* mine, void* all, std::size_t bytes);

  void check();  // throws what a call would
  void abort(const std::string& reason) noexcept;

 private:
  Comm* begin(Communicator& group, Queue queue);
  void end(Communicator& group, Queue queue, const char* what, Result result);
  void fail(const std::string& reason) noexcept;
  void check_locked() const;
  void hear() const;

  std::unique_ptr<Communicator> make_group(const Members& members, const UniqueId& id,
                                           std::vector<Identity>& identities);
  UniqueId share_id(Communicator& parent, const Members& part);
  void take_leave(Communicator& group) noexcept;

  // nccl_watch.cpp
  void watch();
  std::string look_locked(Communicator& group, Clock::time_point now);
  std::string others_of(const Communicator& group) const;
  std::string own_name() const { return peers_[static_cast<std::size_t>(rank_)].name(); }

  std::shared_ptr<const Library> library_;
  std::shared_ptr<Transport> bootstrap_, bootstrap_alone_;  // null without one
  MemorySpace space_;
  bool mailboxes_;
  double timeout_seconds_;
  Clock::duration timeout_;
  int device_;
  int rank_ = 0;
  std::vector<Peer> peers_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Communicator>> groups_;  // the whole first
  std::string failure_;                                // why nothing works any more; empty: all is well
  bool ending_ = false;
  std::thread watch_;
};

}  // namespace samebits::transport::nccl
