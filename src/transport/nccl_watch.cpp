// The thread that looks after a rank's groups, a few times within the timeout.
#include <fmt/format.h>

#include <algorithm>

#include "samebits/error.hpp"
#include "transport/nccl_world.hpp"

namespace samebits::transport::nccl {
namespace {

using namespace std::chrono_literals;

constexpr int kMostNames = 8;  // in one line

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void World::watch() {
  const auto period = std::min<Clock::duration>(50ms, timeout_ / 10);
  std::string found;
  try {
    make_current(device_, space_);
    leave_captures_alone(space_);
    for (std::unique_lock lock(mutex_); found.empty();) {
      if (changed_.wait_for(lock, period, [&] { return ending_ || !failure_.empty(); })) return;
      for (const std::unique_ptr<Communicator>& group : groups_) {
        if (found.empty()) found = look_locked(*group, Clock::now());
      }
      lock.unlock();
      if (found.empty()) hear();
      lock.lock();
    }
  } catch (const std::exception& error) {
    found = error.what();
  }
  fail(found);
}

// What is wrong with a group; empty when nothing is.
std::string World::look_locked(Communicator& group, Clock::time_point now) {
  if (group.comm == nullptr) return {};
  Result result = kSuccess;
  const Result asked = library_->comm_get_async_error(group.comm, &result);
  if (asked != kSuccess) result = asked;
  if (result != kSuccess && result != kInProgress) {
    return fmt::format("{}: NCCL reports: {}", own_name(), library_->words(result, group.comm));
  }
  const bool busy = group.calling || group.probe.running();
  if (!busy || !group.busy || group.seen_call != group.calls) group.since = now;
  group.busy = busy;
  group.seen_call = group.calls;
  const Clock::duration waited = now - group.since;
  // Its last bytes may still be on their way when a process has ended in order: not at once.
  if (!busy || waited < std::min<Clock::duration>(1s, timeout_ / 2)) return {};
  for (const int rank : group.members.of_world) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.ended()) return fmt::format("{} ended while others wait for it", peer.name());
  }
  if (waited < timeout_) return {};
  return fmt::format(
      "{} has waited for {:.3g} s for {}: died, stalled, cannot be reached or computes for longer",
      own_name(), seconds(waited), others_of(group));
}

std::string World::others_of(const Communicator& group) const {
  std::string names;
  int count = 0;
  for (const int rank : group.members.of_world) {
    if (rank == rank_) continue;
    if (++count <= kMostNames)
      names += (count > 1 ? " or " : "") + peers_[static_cast<std::size_t>(rank)].name();
  }
  if (count > kMostNames) names += fmt::format(" or {} more", count - kMostNames);
  return names;
}

}  // namespace samebits::transport::nccl
