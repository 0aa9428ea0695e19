#include "transport/nccl_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "samebits/error.hpp"
#include "transport/memory.hpp"
#include "transport/nccl_join.hpp"

namespace samebits::transport::nccl {
namespace {

using namespace std::chrono_literals;

// NCCL's own word for machines on which GPUs had better not reach each other's memory.
bool peers_are_off() {
  const char* const word = std::getenv("NCCL_P2P_DISABLE");
  return word != nullptr && std::string(word) != "0";
}

constexpr auto kPatience = 500ms;  // for calls that are about to return

MemorySpace reachable(MemorySpace space) {
  if (can_reach(space)) return space;
  throw Error(
      ErrorCode::environment,
      space == MemorySpace::cuda
          ? "the nccl transport moves CUDA memory, and this build has no CUDA"
          : "this build cannot reach the memory that the nccl transport is to move (HIP's: build with "
            "-DSAMEBITS_HIP=ON -DSAMEBITS_CUDA=OFF)");
}

}  // namespace

World::World(const NcclOptions& options)
    : bootstrap_(options.bootstrap),
      space_(reachable(options.space)),
      mailboxes_(options.mailboxes && !peers_are_off()),
      timeout_seconds_(options.timeout_seconds),
      timeout_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(options.timeout_seconds))),
      device_(options.device ? *options.device : current_device(space_)) {
  const Meeting meeting = meet(options);
  library_ = meeting.library;
  rank_ = meeting.rank;
  if (bootstrap_) bootstrap_alone_ = bootstrap_->subgroup(std::array{meeting.rank});
  Members all{std::vector<int>(static_cast<std::size_t>(meeting.size)), meeting.rank};
  std::iota(all.of_world.begin(), all.of_world.end(), 0);
  std::vector<Identity> identities;
  try {
    groups_.push_back(make_group(all, meeting.id, identities));
  } catch (const Error& error) {
    fail(error.what());  // so that the others need not wait either
    throw;
  }
  const Identity& mine = identities[static_cast<std::size_t>(meeting.rank)];
  for (int r = 0; r < meeting.size; ++r)
    peers_.emplace_back(r, identities[static_cast<std::size_t>(r)], mine);
  if (meeting.size > 1) watch_ = std::thread([this] { watch(); });
}

World::~World() {
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) take_leave(**group);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

// Waits, watched, until what was enqueued has left; the communicator goes in any case.
void World::take_leave(Communicator& group) noexcept {
  try {
    call(group, {}, "leaving", [&](Comm* comm) {
      const Result drained = group.mailbox ? group.mailbox->drain() : kSuccess;
      return drained == kSuccess ? library_->comm_finalize(comm) : drained;
    });
  } catch (const std::exception&) {  // it has failed, and was aborted
  }
  Comm* comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::swap(comm, group.comm);
  }
  if (comm != nullptr) library_->comm_destroy(comm);
}

std::unique_ptr<Communicator> World::make_group(const Members& members, const UniqueId& id,
                                                std::vector<Identity>& identities) {
  auto group = std::make_unique<Communicator>(members, device_, space_);
  const JoinRequest request{library_, id,     members.rank, static_cast<int>(members.of_world.size()),
                            device_,  space_, mailboxes_};
  Joined joined = join(request, timeout_seconds_, [this] {
    check();
    hear();
  });
  group->comm = joined.comm;
  group->mailbox = std::move(joined.mailbox);
  identities = std::move(joined.identities);
  return group;
}

Communicator& World::group(Communicator& parent, const Members& part) {
  {
    const std::lock_guard lock(mutex_);
    check_locked();
    for (const std::unique_ptr<Communicator>& group : groups_) {
      if (group->members.of_world == part.of_world) return *group;
    }
  }
  try {
    std::vector<Identity> known;
    std::unique_ptr<Communicator> group = make_group(part, share_id(parent, part), known);
    const std::lock_guard lock(mutex_);
    groups_.push_back(std::move(group));
    return *groups_.back();
  } catch (const Error& error) {
    fail(error.what());
    throw;
  }
}

// The first rank of the part makes an id and sends it to the others over the parent.
UniqueId World::share_id(Communicator& parent, const Members& part) {
  UniqueId id{};
  if (part.of_world.size() == 1) return make_id(*library_);
  Scratch scratch(sizeof id, device_, space_);
  if (part.rank == 0) {
    id = make_id(*library_);
    scratch.write(0, &id, sizeof id);
  }
  const auto in_parent = [&](std::size_t member) {
    const std::vector<int>& all = parent.members.of_world;
    return static_cast<int>(std::find(all.begin(), all.end(), part.of_world[member]) - all.begin());
  };
  call(parent, {}, "sharing an id", [&](Comm* comm) {
    if (part.rank > 0) return library_->recv(scratch.data(), sizeof id, kUint8, in_parent(0), comm, nullptr);
    Result first = library_->group_start();
    if (first != kSuccess) return first;
    for (std::size_t m = 1; m < part.of_world.size() && first == kSuccess; ++m)
      first = library_->send(scratch.data(), sizeof id, kUint8, in_parent(m), comm, nullptr);
    const Result last = library_->group_end();
    return first != kSuccess ? first : last;
  });
  scratch.read(0, &id, sizeof id);  // after what was enqueued
  check();                          // an abort lets the wait end too
  return id;
}

void World::gather(Communicator& group, const void* mine, void* all, std::size_t bytes) {
  const std::size_t ranks = group.members.of_world.size();
  Scratch scratch(bytes * (1 + ranks), device_, space_);
  scratch.write(0, mine, bytes);
  call(group, {}, "gathering", [&](Comm* comm) {
    return library_->all_gather(scratch.data(), scratch.data() + bytes, bytes, kUint8, comm, nullptr);
  });
  scratch.read(bytes, all, bytes * ranks);  // after what was enqueued
  check();                                  // an abort lets the wait end too
}

Comm* World::begin(Communicator& group, Queue queue) {
  const std::lock_guard lock(mutex_);
  check_locked();
  group.probe.before(queue);
  ++group.calls;
  group.calling = true;
  return group.comm;
}

void World::end(Communicator& group, Queue queue, const char* what, Result result) {
  std::string words;
  {
    const std::lock_guard lock(mutex_);
    group.calling = false;
    changed_.notify_all();
    check_locked();
    if (result == kSuccess) {
      group.probe.after(queue);
      return;
    }
    words = fmt::format("{}: {}: NCCL answers: {}", own_name(), what, library_->words(result, group.comm));
  }
  fail(words);
  throw Error(code_of(result), words);
}

void World::check_locked() const {
  if (!failure_.empty()) throw Error(ErrorCode::lost_rank, failure_);
}

void World::check() {
  const std::lock_guard lock(mutex_);
  check_locked();
}

// What the bootstrap knows: a collective of this rank alone waits for nobody, and fails where ranks have
// given up.
void World::hear() const {
  if (!bootstrap_alone_) return;
  const std::array<std::size_t, 1> nothing{};
  try {
    bootstrap_alone_->all_gather(nullptr, nullptr, nothing, MemorySpace::host, {});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::lost_rank) throw;
  } catch (...) {  // a host program that knows no group of one rank: it says nothing
  }
}

void World::fail(const std::string& reason) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason.empty() ? "no reason given" : reason;
    if (bootstrap_) {
      lock.unlock();
      bootstrap_->abort(reason);
      lock.lock();
    }
    for (const std::unique_ptr<Communicator>& group : groups_) {
      if (group->mailbox) group->mailbox->abandon();
    }
    // A thread inside NCCL mostly comes back at once; one that waits there for another rank comes back when
    // its communicator is aborted.
    changed_.wait_for(lock, kPatience, [&] {
      return std::none_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->calling; });
    });
    for (const std::unique_ptr<Communicator>& group : groups_) {
      if (group->comm != nullptr) library_->comm_abort(group->comm);
      group->comm = nullptr;
    }
  } catch (...) {  // an abort that fails leaves nothing more to do
  }
}

void World::abort(const std::string& reason) noexcept {
  try {
    fail(fmt::format("{} gave up: {}", own_name(), reason));
  } catch (...) {
  }
}

}  // namespace samebits::transport::nccl
