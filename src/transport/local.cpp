// Ranks as threads of one process: each posts where its bytes are, all wait, each copies what is for it, all
// wait again.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "transport/group.hpp"

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

  // Waits until every rank of the group is here.
  void meet(Group& group, int rank, const Post* post) {
    std::unique_lock lock(mutex_);
    throw_if_aborted();
    if (post != nullptr) group.posts[static_cast<std::size_t>(rank)] = *post;
    const std::uint64_t generation = group.generation;
    if (++group.arrived == static_cast<int>(group.ranks.size())) {
      group.arrived = 0;
      ++group.generation;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return group.generation != generation || aborted_; });
    if (group.generation == generation) throw_if_aborted();
  }

  void abort(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    reason_ = reason;
    changed_.notify_all();
  }

 private:
  void throw_if_aborted() const {
    if (aborted_) throw Error(ErrorCode::lost_rank, reason_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::string reason_;
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_;
  std::shared_ptr<Group> whole_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<World> world, std::shared_ptr<Group> group, int rank)
      : world_(std::move(world)), group_(std::move(group)), rank_(rank) {}

  std::string name() const override { return "local"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  bool reaches(MemorySpace space) const override { return space == MemorySpace::host; }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace,
                  Queue) override {
    check_counts(bytes, size());
    const Post post{static_cast<const unsigned char*>(send), bytes};
    world_->meet(*group_, rank_, &post);
    auto* to = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < bytes.size(); ++r) {
      const Post& from = group_->posts[r];
      require(std::equal(from.bytes.begin(), from.bytes.end(), bytes.begin()), static_cast<int>(r));
      if (bytes[r] > 0 && to != from.send) std::memcpy(to, from.send, bytes[r]);
      to += bytes[r];
    }
    world_->meet(*group_, rank_, nullptr);
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace, Queue) override {
    check_counts(send_bytes, size());
    check_counts(receive_bytes, size());
    const Post post{static_cast<const unsigned char*>(send), send_bytes};
    world_->meet(*group_, rank_, &post);
    auto* to = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < receive_bytes.size(); ++r) {
      const Post& from = group_->posts[r];
      const auto mine = static_cast<std::size_t>(rank_);
      require(from.bytes[mine] == receive_bytes[r], static_cast<int>(r));
      const std::size_t before = total(from.bytes.first(mine));
      if (receive_bytes[r] > 0) std::memcpy(to, from.send + before, receive_bytes[r]);
      to += receive_bytes[r];
    }
    world_->meet(*group_, rank_, nullptr);
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    const transport::Members part = transport::subgroup_of({group_->ranks, rank_}, ranks);
    return std::make_shared<LocalTransport>(world_, world_->group(part.of_world), part.rank);
  }

  void abort(const std::string& reason) noexcept override { world_->abort(reason); }

 private:
  // Ranks that disagree about a size would read beyond a buffer.
  void require(bool agreed, int rank) const {
    if (agreed) return;
    const std::string reason =
        fmt::format("ranks {} and {} disagree about the bytes of a collective", rank_, rank);
    world_->abort(reason);
    throw Error(ErrorCode::disagreement, reason);
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> local_transports(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} ranks: there must be at least one", ranks));
  const auto world = std::make_shared<World>(ranks);
  std::vector<std::shared_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_shared<LocalTransport>(world, world->whole(), rank));
  }
  return transports;
}

std::shared_ptr<Transport> self_transport() { return local_transports(1).front(); }

void run_local(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  const auto transports = local_transports(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  bool first_is_echo = false;  // a rank that only heard of another's failure
  const auto fail = [&](int rank, bool echo, const std::string& what) {
    const std::lock_guard lock(mutex);
    if (!first || (first_is_echo && !echo)) {
      first = std::current_exception();
      first_is_echo = echo;
    }
    transports[static_cast<std::size_t>(rank)]->abort(fmt::format("rank {} failed: {}", rank, what));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, transports[static_cast<std::size_t>(rank)]);
      } catch (const Error& error) {
        fail(rank, error.code() == ErrorCode::lost_rank, error.what());
      } catch (const std::exception& error) {
        fail(rank, false, error.what());
      } catch (...) {
        fail(rank, false, "an exception that is no std::exception");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace samebits
