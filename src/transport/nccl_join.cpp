#include "transport/nccl_join.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "samebits/error.hpp"
#include "transport/nccl_device.hpp"

namespace samebits::transport::nccl {
namespace {

using namespace std::chrono_literals;

// Shared by the caller, who may stop waiting, and the thread that is inside NCCL, which may never come back:
// a communicator that is still being made cannot be aborted.
struct Attempt {
  JoinRequest request;
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false, abandoned = false;
  Joined joined;
  std::string problem;  // empty: none
  ErrorCode code = ErrorCode::lost_rank;
};

void expect(const Library& library, Result result, Comm* comm, const char* tried) {
  if (result != kSuccess)
    throw Error(code_of(result), fmt::format("{}: {}", tried, library.words(result, comm)));
}

// One message of every kind: NCCL connects ranks when they first have something to say.
std::vector<Identity> introduce(const JoinRequest& request, Comm* comm) {
  const Library& library = *request.library;
  const auto size = static_cast<std::size_t>(request.size);
  const std::size_t received = sizeof(Identity), sent = received + size * sizeof(Identity), heard = sent + 1;
  Scratch scratch(heard + size, request.device, request.space);
  const Identity mine = own_identity();
  scratch.write(0, &mine, sizeof mine);
  expect(library,
         library.all_gather(scratch.data(), scratch.data() + received, sizeof mine, kUint8, comm, nullptr),
         comm, "introducing ranks");
  const char word = 1;
  scratch.write(sent, &word, 1);
  expect(library, library.group_start(), comm, "connecting ranks");
  Result first = kSuccess;
  for (int r = 0; r < request.size && first == kSuccess; ++r) {
    if (r == request.rank) continue;
    first = library.send(scratch.data() + sent, 1, kUint8, r, comm, nullptr);
    if (first == kSuccess) first = library.recv(scratch.data() + heard + r, 1, kUint8, r, comm, nullptr);
  }
  const Result last = library.group_end();
  expect(library, first, comm, "connecting ranks");
  expect(library, last, comm, "connecting ranks");
  std::vector<Identity> identities(size);
  scratch.read(received, identities.data(), size * sizeof(Identity));
  for (Identity& identity : identities) identity.host[sizeof identity.host - 1] = 0;
  return identities;
}

std::unique_ptr<Mailbox> open_mailbox(const JoinRequest& request, const Joined& joined) {
  const auto gather = [&](const void* mine, void* all, std::size_t bytes) {
    const auto size = static_cast<std::size_t>(request.size);
    Scratch scratch(bytes * (1 + size), request.device, request.space);
    scratch.write(0, mine, bytes);
    expect(*request.library,
           request.library->all_gather(scratch.data(), scratch.data() + bytes, bytes, kUint8, joined.comm,
                                       nullptr),
           joined.comm, "opening mailboxes");
    scratch.read(bytes, all, bytes * size);
  };
  return Mailbox::open(gather, joined.identities, request.rank, request.device, request.space,
                       request.mailbox);
}

void work(const std::shared_ptr<Attempt>& attempt) {
  const Library& library = *attempt->request.library;
  Joined joined;
  std::string problem;
  ErrorCode code = ErrorCode::lost_rank;
  try {
    const JoinRequest& request = attempt->request;
    make_current(request.device, request.space);
    Config config;
    expect(library,
           library.comm_init_rank_config(&joined.comm, request.size, request.id, request.rank, &config),
           nullptr, "joining an NCCL group");
    joined.identities = introduce(request, joined.comm);
    joined.mailbox = open_mailbox(request, joined);
  } catch (const Error& error) {
    problem = error.what();
    code = error.code();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::lock_guard lock(attempt->mutex);
  if (joined.comm != nullptr && (attempt->abandoned || !problem.empty())) {
    library.comm_abort(joined.comm);
    joined.comm = nullptr;
  }
  attempt->joined = std::move(joined);
  attempt->problem = std::move(problem);
  attempt->code = code;
  attempt->over = true;
  attempt->ended.notify_all();
}

}  // namespace

Joined join(const JoinRequest& request, double seconds, const std::function<void()>& check) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->request = request;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::thread thread(work, attempt);
  std::unique_lock lock(attempt->mutex);
  try {
    while (!attempt->ended.wait_for(lock, 20ms, [&] { return attempt->over; })) {
      lock.unlock();
      check();
      lock.lock();
      if (std::chrono::steady_clock::now() > until && !attempt->over) {
        throw Error(
            ErrorCode::lost_rank,
            fmt::format("the other ranks of a group of {} did not join within {:.3g} s: one of them died, "
                        "stalled or never began",
                        request.size, seconds));
      }
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    attempt->abandoned = true;
    const bool over = attempt->over;
    Comm* const comm = attempt->joined.comm;
    lock.unlock();
    if (over) {
      thread.join();
      if (comm != nullptr) request.library->comm_abort(comm);
    } else {
      thread.detach();
    }
    throw;
  }
  lock.unlock();
  thread.join();
  if (!attempt->problem.empty()) throw Error(attempt->code, attempt->problem);
  return std::move(attempt->joined);
}

}  // namespace samebits::transport::nccl
