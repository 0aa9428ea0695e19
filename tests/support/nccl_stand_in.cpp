// A library with NCCL's interface that moves host memory between threads and processes of one machine, and
// can be told to fail. Ranks share a file, named by the id: a ring of bytes for every ordered pair. The calls
// of a group make progress together, so nothing hangs on their order; they are done on return. Like NCCL over
// NVLink it does not notice that a rank is gone.
//
// Told by environment variables, read when a rank joins a group:
//   SAMEBITS_STAND_IN_FOLDER   where the files are; /dev/shm
//   SAMEBITS_STAND_IN_VERSION  what ncclGetVersion says; 21803
//   SAMEBITS_STAND_IN_RANK     the rank that meets with what follows
//   SAMEBITS_STAND_IN_JOIN     fail or stall
//   SAMEBITS_STAND_IN_FAIL     n: the n-th group of calls on a communicator answers ncclSystemError
//   SAMEBITS_STAND_IN_ASYNC    n: the n-th waits, and ncclCommGetAsyncError says ncclRemoteError
//   SAMEBITS_STAND_IN_STALL    n: the n-th waits
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "transport/nccl_abi.hpp"

using samebits::transport::nccl::Config;
using samebits::transport::nccl::DataType;
using samebits::transport::nccl::Result;
using samebits::transport::nccl::Stream;
using samebits::transport::nccl::UniqueId;
namespace nccl = samebits::transport::nccl;

namespace {

constexpr std::size_t kRing = std::size_t{1} << 14;
constexpr std::size_t kCount = sizeof(std::uint64_t);  // before every message: its bytes

std::string told(const char* what) {
  const char* const value = std::getenv((std::string("SAMEBITS_STAND_IN_") + what).c_str());
  return value != nullptr ? value : "";
}

int told_number(const char* what, int otherwise) {
  const std::string value = told(what);
  return value.empty() ? otherwise : std::atoi(value.c_str());
}

// Gives the processor away for longer the longer nothing happens.
class Patience {
 public:
  void wait() {
    if (++turns_ < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(turns_ - 63, 20) * 25));
    }
  }
  void reset() { turns_ = 0; }

 private:
  int turns_ = 0;
};

// Bytes from one rank to another. All zero is an empty ring.
struct Ring {
  std::atomic<std::uint64_t> written, read;
  unsigned char bytes[kRing];

  std::size_t push(const unsigned char* from, std::size_t most) {
    const std::uint64_t at = written.load(std::memory_order_relaxed);
    const std::size_t count =
        std::min<std::size_t>(most, kRing - (at - read.load(std::memory_order_acquire)));
    for (std::size_t i = 0; i < count; ++i) bytes[(at + i) % kRing] = from[i];
    written.store(at + count, std::memory_order_release);
    return count;
  }
  std::size_t pull(unsigned char* to, std::size_t most) {
    const std::uint64_t at = read.load(std::memory_order_relaxed);
    const std::size_t count = std::min<std::size_t>(most, written.load(std::memory_order_acquire) - at);
    for (std::size_t i = 0; i < count; ++i) to[i] = bytes[(at + i) % kRing];
    read.store(at + count, std::memory_order_release);
    return count;
  }
};

struct Shared {
  std::atomic<int> attached;
};

}  // namespace

namespace samebits::transport::nccl {

struct Comm {
  int ranks = 0, rank = 0;
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::atomic<bool> aborted = false;
  std::atomic<int> inside = 0;  // threads
  std::atomic<int> async_error = kSuccess;
  int groups = 0, fail_at = 0, async_at = 0, stall_at = 0;

  Ring& ring(int from, int to) const {
    auto* const rings = reinterpret_cast<Ring*>(static_cast<unsigned char*>(memory) + sizeof(Ring));
    return rings[from * ranks + to];
  }
};

}  // namespace samebits::transport::nccl

namespace {

using nccl::Comm;

struct Call {
  Comm* comm;
  bool sends;
  unsigned char* data;
  std::uint64_t bytes;
  int peer;
  std::uint64_t count = 0;  // as the message says, when received
  std::size_t at = 0;       // bytes that have moved, those of the count among them

  bool done() const { return at == kCount + bytes; }
  bool same_way(const Call& other) const {
    return comm == other.comm && sends == other.sends && peer == other.peer;
  }
};

thread_local int group_depth = 0;
thread_local std::vector<Call> group_calls;
thread_local std::string last_error;

Result failed(Result result, const char* words) {
  last_error = words;
  return result;
}

// Moves what can be moved at once. -1: the message has other bytes than are expected.
int progress(Call& call) {
  Comm& comm = *call.comm;
  Ring& ring = call.sends ? comm.ring(comm.rank, call.peer) : comm.ring(call.peer, comm.rank);
  const auto move = [&](unsigned char* data, std::size_t bytes) {
    return call.sends ? ring.push(data, bytes) : ring.pull(data, bytes);
  };
  std::size_t moved = 0;
  if (call.at < kCount) {
    if (call.sends) call.count = call.bytes;
    moved = move(reinterpret_cast<unsigned char*>(&call.count) + call.at, kCount - call.at);
    call.at += moved;
    if (call.at == kCount && call.count != call.bytes) return -1;
  }
  if (call.at >= kCount && !call.done()) {
    const std::size_t more = move(call.data + (call.at - kCount), kCount + call.bytes - call.at);
    call.at += more;
    moved += more;
  }
  return moved > 0 ? 1 : 0;
}

bool any_aborted(const std::vector<Comm*>& comms) {
  return std::any_of(comms.begin(), comms.end(), [](const Comm* comm) { return comm->aborted.load(); });
}

Result wait_for_abort(const std::vector<Comm*>& comms) {
  while (!any_aborted(comms)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return failed(nccl::kRemoteError, "the communicator was aborted");
}

Result move_all(std::vector<Call>& calls, const std::vector<Comm*>& comms) {
  for (Comm* const comm : comms) {
    ++comm->groups;
    if (comm->groups == comm->fail_at) return failed(nccl::kSystemError, "the stand-in was told to fail");
    if (comm->groups == comm->async_at) {
      last_error = "the stand-in was told to lose a rank";
      comm->async_error = nccl::kRemoteError;
    }
    if (comm->groups == comm->async_at || comm->groups == comm->stall_at) return wait_for_abort(comms);
  }
  for (Patience patience;;) {
    bool all = true, some = false;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].done()) continue;
      const bool waits = std::any_of(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Call& c) { return !c.done() && c.same_way(calls[i]); });
      const int moved = waits ? 0 : progress(calls[i]);
      if (moved < 0) return failed(nccl::kInvalidUsage, "a message of other bytes than are expected");
      some = some || moved > 0;
      all = all && calls[i].done();
    }
    if (all) return nccl::kSuccess;
    if (any_aborted(comms)) return failed(nccl::kRemoteError, "the communicator was aborted");
    if (some) {
      patience.reset();
    } else {
      patience.wait();
    }
  }
}

Result run_group() {
  std::vector<Call> calls = std::move(group_calls);
  group_calls.clear();
  std::vector<Comm*> comms;
  for (const Call& call : calls) {
    if (std::find(comms.begin(), comms.end(), call.comm) == comms.end()) comms.push_back(call.comm);
  }
  for (Comm* const comm : comms) ++comm->inside;
  const Result result = move_all(calls, comms);
  for (Comm* const comm : comms) --comm->inside;
  return result;
}

Result add(Comm* comm, bool sends, const void* data, std::size_t bytes, int peer) {
  if (comm == nullptr || peer < 0 || peer >= comm->ranks)
    return failed(nccl::kInvalidArgument, "no such rank");
  group_calls.push_back({comm, sends, static_cast<unsigned char*>(const_cast<void*>(data)), bytes, peer});
  return nccl::kSuccess;
}

Result unless_grouped() { return group_depth > 0 ? nccl::kSuccess : run_group(); }

void release(Comm* comm) {
  munmap(comm->memory, comm->bytes);
  delete comm;
}

Result attach(Comm& comm, const char* path) {
  comm.bytes =
      sizeof(Ring) * (1 + static_cast<std::size_t>(comm.ranks) * static_cast<std::size_t>(comm.ranks));
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return failed(nccl::kSystemError, "the shared file cannot be opened");
  const bool sized = ftruncate(file, static_cast<off_t>(comm.bytes)) == 0;
  comm.memory = sized ? mmap(nullptr, comm.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (comm.memory == MAP_FAILED) return failed(nccl::kSystemError, "the shared file cannot be mapped");
  auto& attached = static_cast<Shared*>(comm.memory)->attached;
  if (++attached == comm.ranks) unlink(path);
  for (Patience patience; attached < comm.ranks;) patience.wait();
  return nccl::kSuccess;
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  *version = told_number("VERSION", 21803);
  return nccl::kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> made = 0;
  const std::string folder = told("FOLDER");
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "%s/samebits-stand-in-%d-%d-%lld",
                folder.empty() ? "/dev/shm" : folder.c_str(), static_cast<int>(getpid()), ++made,
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return nccl::kSuccess;
}

Result ncclCommInitRankConfig(Comm** out, int ranks, UniqueId id, int rank, Config* config) {
  if (config == nullptr || config->magic != 0xcafebeefU || config->blocking != 1)
    return failed(nccl::kInvalidArgument, "not a configuration");
  auto* const comm = new Comm;
  comm->ranks = ranks;
  comm->rank = rank;
  if (rank == told_number("RANK", -1)) {
    comm->fail_at = told_number("FAIL", 0);
    comm->async_at = told_number("ASYNC", 0);
    comm->stall_at = told_number("STALL", 0);
    if (told("JOIN") == "fail") {
      delete comm;
      return failed(nccl::kSystemError, "the stand-in was told to fail");
    }
    while (told("JOIN") == "stall") std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Result result = attach(*comm, id.bytes);
  if (result != nccl::kSuccess) {
    delete comm;
    return result;
  }
  *out = comm;
  return nccl::kSuccess;
}

Result ncclCommFinalize(Comm*) { return nccl::kSuccess; }

Result ncclCommDestroy(Comm* comm) {
  release(comm);
  return nccl::kSuccess;
}

Result ncclCommAbort(Comm* comm) {
  comm->aborted = true;
  while (comm->inside > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  release(comm);
  return nccl::kSuccess;
}

Result ncclCommGetAsyncError(Comm* comm, Result* result) {
  *result = static_cast<Result>(comm->async_error.load());
  return nccl::kSuccess;
}

Result ncclGroupStart() {
  ++group_depth;
  return nccl::kSuccess;
}

Result ncclGroupEnd() {
  if (group_depth == 0) return failed(nccl::kInvalidUsage, "no group was begun");
  return --group_depth > 0 ? nccl::kSuccess : run_group();
}

Result ncclSend(const void* data, std::size_t count, DataType, int peer, Comm* comm, Stream) {
  const Result result = add(comm, true, data, count, peer);
  return result == nccl::kSuccess ? unless_grouped() : result;
}

Result ncclRecv(void* data, std::size_t count, DataType, int peer, Comm* comm, Stream) {
  const Result result = add(comm, false, data, count, peer);
  return result == nccl::kSuccess ? unless_grouped() : result;
}

Result ncclAllGather(const void* send, void* receive, std::size_t count, DataType, Comm* comm, Stream) {
  auto* const to = static_cast<unsigned char*>(receive);
  for (int r = 0; r < comm->ranks; ++r) {
    unsigned char* const part = to + static_cast<std::size_t>(r) * count;
    if (r == comm->rank) {
      if (part != send) std::memcpy(part, send, count);
      continue;
    }
    add(comm, true, send, count, r);
    add(comm, false, part, count, r);
  }
  return unless_grouped();
}

Result ncclBroadcast(const void* send, void* receive, std::size_t count, DataType, int root, Comm* comm,
                     Stream) {
  if (root != comm->rank) {
    add(comm, false, receive, count, root);
  } else {
    if (receive != send) std::memcpy(receive, send, count);
    for (int r = 0; r < comm->ranks; ++r) {
      if (r != root) add(comm, true, send, count, r);
    }
  }
  return unless_grouped();
}

const char* ncclGetErrorString(Result result) {
  constexpr const char* kWords[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "in progress"};
  return result >= 0 && result < 8 ? kWords[result] : "unknown result code";
}

const char* ncclGetLastError(Comm*) { return last_error.c_str(); }

}  // extern "C"
