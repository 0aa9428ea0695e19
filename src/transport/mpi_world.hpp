// All processes of an MPI world, and what this one knows of the others. After the start every call into MPI
// is made here and in mpi_pulse.cpp, under one lock, and none of them blocks: so a rank that is gone is an
// error, never a hang.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "transport/messages.hpp"
#include "transport/mpi_communicator.hpp"
#include "transport/mpi_session.hpp"

namespace samebits::transport {

using Clock = std::chrono::steady_clock;

class MpiWorld {
 public:
  explicit MpiWorld(const MpiOptions& options);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // All of it, host memory, ranks of the world, in any order; done on return. Throws Error(lost_rank) when a
  // rank it waits for is gone, or has given up, and Error(disagreement) when another rank sends or expects
  // another number of bytes.
  void exchange(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing);

  // Tells the others why this rank gives up. Afterwards no call into MPI is made.
  void abort(const std::string& reason) noexcept;

 private:
  // What ranks tell each other beside the bytes.
  enum class Word : int { alive, goodbye, give_up };
  struct Message {
    Word word = Word::alive;
    char reason[508] = {};
  };

  // Another rank, as far as this one knows.
  struct Peer {
    Clock::time_point heard{};
    bool gone = false;    // it said goodbye
    bool parted = false;  // this one said goodbye to it
    bool lost = false;    // MPI has refused to tell it something
    MPI_Request sending = MPI_REQUEST_NULL;
    std::string where;  // host and process
  };

  // mpi_pulse.cpp. Where `locked` is named the caller holds the lock.
  void pulse();
  void listen_locked();
  bool idle_locked(int rank);
  void tell_locked(int rank, const Message& message);
  void tell_all_locked(const Message& message, std::chrono::milliseconds patience);
  void send_locked(int rank, const Message& message);
  bool say_goodbye();
  bool part_locked(int rank);

  void introduce();
  void leave_mpi() noexcept;
  std::string name_of(int rank) const;  // for people
  void post_locked(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing,
                   std::vector<MPI_Request>& requests, std::vector<int>& ranks);
  void check_health_locked(std::span<const MPI_Request> requests, std::span<const int> ranks) const;
  void tell_failure_locked();
  [[noreturn]] void give_up_locked(std::vector<MPI_Request>& requests, ErrorCode code,
                                   const std::string& reason);

  const Clock::duration timeout_;
  MpiSession session_;
  MpiCommunicator data_, control_;
  int rank_ = 0, size_ = 1;

  std::mutex mutex_;  // of calls into MPI, and of everything below
  std::vector<Peer> peers_;
  std::vector<Message> outbox_;  // a rank's last message, while it is on its way
  std::string failure_;          // why nothing works any more; empty: all is well
  bool stopped_ = false;         // no more calls into MPI

  std::atomic<bool> ending_ = false;
  std::thread pulse_;
};

}  // namespace samebits::transport
