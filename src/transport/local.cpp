// Ranks as threads of one process: each posts where its bytes are, all wait, each copies what is for it, all
// wait again.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "transport/group.hpp"
#include "transport/memory.hpp"

namespace samebits {
namespace {

using transport::check_counts;
using transport::total;

struct Post {
  const unsigned char* send = nullptr;
  std::span<const std::size_t> bytes;
};

struct Group {
  std::vector<int> ranks;  // of the world
  std::vector<Post> posts;
  int arrived = 0;
  std::uint64_t generation = 0;
};

// What all ranks of one process share. One lock for all groups: a handful of ranks meet a few times a stage.
class World {
 public:
  explicit World(int ranks) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    whole_ = group(all);
    ended_.reserve(all.size());  // no allocation while others may be running
  }

  const std::shared_ptr<Group>& whole() const { return whole_; }

  std::shared_ptr<Group> group(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Group>& found = groups_[ranks];
    if (!found) {
      found = std::make_shared<Group>();
      found->ranks = ranks;
      found->posts.resize(ranks.size());
    }
    return found;
  }

  // Waits until every rank of the group has posted. Fails when one cannot come any more.
  void enter(Group& group, int rank, const Post& post) {
    std::unique_lock lock(mutex_);
    throw_if_aborted();
    group.posts[static_cast<std::size_t>(rank)] = post;
    const std::uint64_t generation = group.generation;
    if (arrive(group)) return;
    changed_.wait(lock,
                  [&] { return group.generation != generation || aborted_ || ended_member(group) >= 0; });
    if (group.generation != generation) return;
    throw_if_aborted();
    throw Error(ErrorCode::lost_rank,
                fmt::format("rank {} ended while others wait for it", ended_member(group)));
  }

  // Waits until every rank of the group has read what it came for. Whoever entered gets here, aborted or not,
  // and until then nobody's buffers go away.
  void leave(Group& group) {
    std::unique_lock lock(mutex_);
    const std::uint64_t generation = group.generation;
    if (arrive(group)) return;
    changed_.wait(lock, [&] { return group.generation != generation; });
  }

  // `rank` of the world takes part in nothing more.
  void end(int rank) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(rank);
    changed_.notify_all();
  }

  void abort(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    reason_ = reason;
    changed_.notify_all();
  }

 private:
  bool arrive(Group& group) {
    if (++group.arrived < static_cast<int>(group.ranks.size())) return false;
    group.arrived = 0;
    ++group.generation;
    changed_.notify_all();
    return true;
  }
  int ended_member(const Group& group) const {
    for (const int rank : ended_) {
      if (std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end()) return rank;
    }
    return -1;
  }
  void throw_if_aborted() const {
    if (aborted_) throw Error(ErrorCode::lost_rank, reason_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::string reason_;
  std::vector<int> ended_;
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_;
  std::shared_ptr<Group> whole_;
};

// From the moment when every rank has posted to the moment when every rank has read, however this one ends.
class Meeting {
 public:
  Meeting(World& world, Group& group, int rank, const Post& post) : world_(world), group_(group) {
    world_.enter(group_, rank, post);
  }
  ~Meeting() { world_.leave(group_); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

 private:
  World& world_;
  Group& group_;
};

// Ranks of one process reach each other's memory as it is.
class LocalWindow final : public Window {
 public:
  explicit LocalWindow(std::vector<std::shared_ptr<void>> memory) : memory_(std::move(memory)) {}
  void* of(int rank) const override { return memory_[static_cast<std::size_t>(rank)].get(); }

 private:
  std::vector<std::shared_ptr<void>> memory_;
};

// Device memory: what a rank posts has been written, and it leaves when its copies are done. So ranks of one
// device need no knowledge of each other's streams.
class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<World> world, std::shared_ptr<Group> group, int rank)
      : world_(std::move(world)), group_(std::move(group)), rank_(rank) {}

  std::string name() const override { return "local"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  bool reaches(MemorySpace space) const override { return transport::can_reach(space); }
  // On a device the host waits for queues in every exchange: nothing would run beside it.
  bool concurrent(MemorySpace space) const override { return space == MemorySpace::host; }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    check_counts(bytes, size());
    if (bytes[static_cast<std::size_t>(rank_)] > 0) transport::wait_for(send, space, queue);
    int other = -1;  // a rank that has other byte counts
    {
      const Meeting meeting(*world_, *group_, rank_, {static_cast<const unsigned char*>(send), bytes});
      auto* to = static_cast<unsigned char*>(receive);
      for (std::size_t r = 0; r < bytes.size() && other < 0; ++r) {
        const Post& from = group_->posts[r];
        if (!std::equal(from.bytes.begin(), from.bytes.end(), bytes.begin(), bytes.end())) {
          other = static_cast<int>(r);
        } else if (bytes[r] > 0 && to != from.send) {
          transport::copy(to, from.send, bytes[r], space, queue);
        }
        to += bytes[r];
      }
      if (total(bytes) > 0) transport::wait_for(receive, space, queue);
    }
    require_agreement(other);
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    check_counts(send_bytes, size());
    check_counts(receive_bytes, size());
    if (total(send_bytes) > 0) transport::wait_for(send, space, queue);
    const auto mine = static_cast<std::size_t>(rank_);
    int other = -1;
    {
      const Meeting meeting(*world_, *group_, rank_, {static_cast<const unsigned char*>(send), send_bytes});
      auto* to = static_cast<unsigned char*>(receive);
      for (std::size_t r = 0; r < receive_bytes.size() && other < 0; ++r) {
        const Post& from = group_->posts[r];
        if (from.bytes[mine] != receive_bytes[r]) {
          other = static_cast<int>(r);
        } else if (receive_bytes[r] > 0) {
          transport::copy(to, from.send + total(from.bytes.first(mine)), receive_bytes[r], space, queue);
        }
        to += receive_bytes[r];
      }
      if (total(receive_bytes) > 0) transport::wait_for(receive, space, queue);
    }
    require_agreement(other);
  }

  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace space) override {
    std::vector<std::shared_ptr<void>> all;
    all.reserve(group_->ranks.size());
    const Meeting meeting(*world_, *group_, rank_, {reinterpret_cast<const unsigned char*>(&memory), {}});
    for (const Post& post : group_->posts)
      all.push_back(*reinterpret_cast<const std::shared_ptr<void>*>(post.send));
    // All find the same, whichever device is their own.
    for (const std::shared_ptr<void>& other : all)
      if (!transport::lie_together(all.front().get(), other.get(), space)) return nullptr;
    return std::make_shared<LocalWindow>(std::move(all));
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    const transport::Members part = transport::subgroup_of({group_->ranks, rank_}, ranks);
    return std::make_shared<LocalTransport>(world_, world_->group(part.of_world), part.rank);
  }

  void abort(const std::string& reason) noexcept override { world_->abort(reason); }

 private:
  // Ranks that disagree about a size would have read beyond a buffer.
  void require_agreement(int other) const {
    if (other < 0) return;
    const std::string reason =
        fmt::format("ranks {} and {} disagree about the bytes of a collective", rank_, other);
    world_->abort(reason);
    throw Error(ErrorCode::disagreement, reason);
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<Group> group_;
  int rank_;
};

std::shared_ptr<World> make_world(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} ranks: there must be at least one", ranks));
  return std::make_shared<World>(ranks);
}

std::vector<std::shared_ptr<Transport>> transports_of(const std::shared_ptr<World>& world, int ranks) {
  std::vector<std::shared_ptr<Transport>> transports;
  transports.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_shared<LocalTransport>(world, world->whole(), rank));
  }
  return transports;
}

}  // namespace

std::vector<std::shared_ptr<Transport>> local_transports(int ranks) {
  return transports_of(make_world(ranks), ranks);
}

std::shared_ptr<Transport> self_transport() { return local_transports(1).front(); }

void run_local(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  const auto world = make_world(ranks);
  const auto transports = transports_of(world, ranks);
  std::mutex mutex;
  std::exception_ptr first;
  bool first_is_echo = false;  // a rank that only heard of another's failure
  const auto fail = [&](int rank, bool echo, const std::string& what, std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    if (!first || (first_is_echo && !echo)) {
      first = std::move(error);
      first_is_echo = echo;
    }
    world->abort(fmt::format("rank {} failed: {}", rank, what));
  };
  const auto play = [&](int rank) {
    try {
      body(rank, transports[static_cast<std::size_t>(rank)]);
    } catch (const Error& error) {
      fail(rank, error.code() == ErrorCode::lost_rank, error.what(), std::current_exception());
    } catch (const std::exception& error) {
      fail(rank, false, error.what(), std::current_exception());
    } catch (...) {
      fail(rank, false, "an exception that is no std::exception", std::current_exception());
    }
    world->end(rank);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back(play, rank);
    } catch (const std::system_error& error) {
      const Error explained(
          ErrorCode::environment,
          fmt::format("only {} of {} ranks could be started as threads: {}", rank, ranks, error.what()));
      fail(rank, false, explained.what(), std::make_exception_ptr(explained));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace samebits
