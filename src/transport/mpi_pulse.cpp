// The thread that tells the other ranks that this process is alive, and hears the same of them.
#include <algorithm>

#include "transport/mpi_world.hpp"

namespace samebits::transport {
namespace {

using namespace std::chrono_literals;

constexpr int kTag = 2;

}  // namespace

void MpiWorld::pulse() {
  // Ten signs of life within the timeout; ears open more often.
  const Clock::duration beat = std::min<Clock::duration>(1s, timeout_ / 10);
  const auto nap = std::min<Clock::duration>(50ms, beat / 2);
  Clock::time_point next = Clock::now();
  while (!ending_) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      listen_locked();
      if (Clock::now() >= next) {
        for (int r = 0; r < size_; ++r) tell_locked(r, {});
        next = Clock::now() + beat;
      }
    }
    std::this_thread::sleep_for(nap);
  }
}

void MpiWorld::listen_locked() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kTag, control_.get(), &there, &status) != MPI_SUCCESS || there == 0)
      return;
    Message message;
    if (MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, kTag, control_.get(),
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return;
    Peer& peer = peers_[static_cast<std::size_t>(status.MPI_SOURCE)];
    peer.heard = Clock::now();
    if (message.word == Word::goodbye) peer.gone = true;
    if (message.word == Word::give_up && failure_.empty()) {
      message.reason[sizeof message.reason - 1] = 0;
      failure_ = message.reason;
    }
  }
}

// One message a rank is on its way at a time: a rank that does not listen is told nothing more.
void MpiWorld::tell_locked(int rank, const Message& message) {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (rank == rank_ || peer.gone || peer.parted || !idle_locked(rank)) return;
  send_locked(rank, message);
}

// Whether nothing is on its way to a rank that MPI still reaches.
bool MpiWorld::idle_locked(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.lost || peer.sending == MPI_REQUEST_NULL) return !peer.lost;
  int over = 0;
  peer.lost = MPI_Test(&peer.sending, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  return !peer.lost && over != 0;
}

void MpiWorld::send_locked(int rank, const Message& message) {
  Message& out = outbox_[static_cast<std::size_t>(rank)];
  out = message;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.lost = MPI_Isend(&out, sizeof out, MPI_BYTE, rank, kTag, control_.get(), &peer.sending) != MPI_SUCCESS;
}

// As tell, and waits a little until the messages are out; those still on their way before go first.
void MpiWorld::tell_all_locked(const Message& message, std::chrono::milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  std::vector<bool> told(peers_.size(), false);
  for (;;) {
    bool all = true;
    for (int r = 0; r < size_; ++r) {
      const Peer& peer = peers_[static_cast<std::size_t>(r)];
      if (r == rank_ || peer.gone) continue;
      bool out = idle_locked(r);
      if (peer.lost) continue;
      if (out && !told[static_cast<std::size_t>(r)]) {
        tell_locked(r, message);
        told[static_cast<std::size_t>(r)] = true;
        out = false;
      }
      all = all && out;
    }
    if (all || Clock::now() > until) return;
    std::this_thread::sleep_for(1ms);
  }
}

// Whether every rank has come to its end as well, and knows that this one has: MPI_Finalize waits for all, so
// nobody calls it before. A rank that has already said goodbye still waits for ours.
bool MpiWorld::say_goodbye() {
  const Clock::time_point begun = Clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return false;
      listen_locked();
      stopped_ = !failure_.empty();
      bool all = true;
      for (int r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        const Peer& peer = peers_[static_cast<std::size_t>(r)];
        if (part_locked(r) && peer.gone) continue;
        all = false;
        // One that has said goodbye says nothing more: it takes ours in time, or never will.
        const Clock::time_point heard = peer.gone ? std::max(begun, peer.heard) : peer.heard;
        if (peer.lost || Clock::now() - heard > timeout_) stopped_ = true;
      }
      if (stopped_) return false;
      if (all) return true;
    }
    std::this_thread::sleep_for(2ms);
  }
}

// Whether the goodbye to this rank is out; a message still on its way goes first.
bool MpiWorld::part_locked(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!idle_locked(rank)) return false;
  if (peer.parted) return true;
  send_locked(rank, {Word::goodbye, {}});
  peer.parted = true;
  return false;
}

}  // namespace samebits::transport
