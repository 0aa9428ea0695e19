// Moving bytes between ranks. A transport never adds and knows no dtype: opaque buffers in a named memory
// space, on an opaque queue. Sums are made by the operator, in the contract's tree, from what arrives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "samebits/export.hpp"
#include "samebits/memory.hpp"

namespace samebits {

// Memory that each rank of a group has opened to the others: they write where it lies. What a rank has
// written, or enqueued to write, before it takes part in an all_gather is there for those that have taken
// part too.
class SAMEBITS_API Window {
 public:
  virtual ~Window() = default;
  virtual void* of(int rank) const = 0;  // where this rank reaches what `rank` has opened
};

// Every operation is collective over the group: all its ranks call the same operations in the same order.
// On return an operation is done (host memory) or enqueued (device memory). Failures throw Error(lost_rank).
class SAMEBITS_API Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool reaches(MemorySpace space) const = 0;

  // Exchanges of such memory may be called beside the work that computes: from another thread (host memory),
  // on another queue (device memory). Never two at once.
  virtual bool concurrent(MemorySpace) const { return false; }

  // Rank r's `send` lands in every `receive`, ranks one behind the other; `bytes[r]` is what rank r sends.
  // `send` may be where it lands.
  virtual void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes,
                          MemorySpace space, Queue queue) = 0;

  // `send` holds send_bytes[0] bytes for rank 0, then send_bytes[1] for rank 1, ...; `receive` likewise by
  // sender.
  virtual void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                          std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) = 0;

  // Opens `memory` to the other ranks. The window shares it, so that it is there for as long as others may
  // write. Null on all ranks where one cannot reach another's.
  virtual std::shared_ptr<Window> open_window(const std::shared_ptr<void>& /*memory*/,
                                              MemorySpace /*space*/) {
    return nullptr;
  }

  // The group of `ranks` (of this group, ascending); every rank of it calls, ranks outside do not.
  virtual std::shared_ptr<Transport> subgroup(std::span<const int> ranks) = 0;

  // This rank cannot go on: the others' operations fail with `reason` instead of waiting. Safe to call at any
  // time.
  virtual void abort(const std::string& reason) noexcept = 0;
};

// One rank.
SAMEBITS_API std::shared_ptr<Transport> self_transport();

// `ranks` threads of one process; element r is for the thread that plays rank r.
SAMEBITS_API std::vector<std::shared_ptr<Transport>> local_transports(int ranks);

// Runs body(rank, transport) on a thread a rank. The first failure aborts the others and is thrown when all
// have ended.
SAMEBITS_API void run_local(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body);

// What a host program supplies when it has its own way to move bytes (PyTorch process groups come in so).
// `group` lists the ranks of the world that take part, ascending. The functions return when the bytes are
// there or enqueued, and report failures by throwing.
struct TransportCallbacks {
  std::function<void(std::span<const int> group, const void* send, void* receive,
                     std::span<const std::size_t> bytes, MemorySpace space, Queue queue)>
      all_gather;
  std::function<void(std::span<const int> group, const void* send, std::span<const std::size_t> send_bytes,
                     void* receive, std::span<const std::size_t> receive_bytes, MemorySpace space,
                     Queue queue)>
      all_to_all;
  std::function<void(const std::string& reason)> abort;   // optional
  std::vector<MemorySpace> spaces = {MemorySpace::host};  // what the two functions can read and write
  bool concurrent = false;                                // Transport::concurrent, of all those spaces
};
SAMEBITS_API std::shared_ptr<Transport> callback_transport(int rank, int size, TransportCallbacks callbacks);

// Bytes that left for other ranks and came from them.
struct Moved {
  std::size_t sent = 0, received = 0, collectives = 0;
};

// A transport that counts what it and its subgroups move. `moved` is one rank's: added to without a lock.
SAMEBITS_API std::shared_ptr<Transport> counting_transport(std::shared_ptr<Transport> transport,
                                                           std::shared_ptr<Moved> moved);

// Ranks as processes, started by mpirun or the like. A thread tells the others once in a while that this
// process is alive, whatever it computes; a rank of which nothing was heard for the timeout is lost. In a
// build with CUDA or HIP device memory travels too, through the host: the caller's stream is waited for as
// far as what is sent, and cannot be captured.
struct MpiOptions {
  double timeout_seconds = 60;
};

// All processes that were started, a rank each; collective. Initialises MPI if nobody has. When its last
// reference goes, waits for the others and ends MPI; after a failure it waits for nobody and leaves MPI as it
// is: the process can then only end. Throws Error(environment) where the build has no MPI.
SAMEBITS_API std::shared_ptr<Transport> mpi_transport(const MpiOptions& options = {});

struct MpiStatus {
  bool built = false;
  std::string library;  // "Open MPI 4.1.4"
};
SAMEBITS_API MpiStatus mpi_status();

// Ranks that move device memory through NCCL (or RCCL, which has the same functions), loaded at run time:
// 2.18 or later. Every collective is enqueued on the caller's stream and can be captured in a graph. Ranks
// meet by one of `bootstrap`, `unique_id` and `id_file`; with none of them a rank is alone.
struct NcclOptions {
  // Moves host memory between the same ranks: mpi_transport, local_transports, callbacks. Also carries the
  // reason when a rank gives up; a thread asks it for that with collectives of this rank alone.
  std::shared_ptr<Transport> bootstrap;
  std::string unique_id;   // nccl_unique_id of one rank, brought to all
  std::string id_file;     // rank 0 writes it, the others wait for it, and it is removed when all have met
  int rank = 0, size = 1;  // without a bootstrap

  // How long ranks wait for each other, in joining and in a collective: what the others compute before they
  // come to it counts. A neighbour's process that has ended is noticed within a second or so.
  double timeout_seconds = 60;
  std::string library;  // path or name; empty: libnccl.so.2 or librccl.so.1
  MemorySpace space = MemorySpace::cuda;

  // Where the ranks of a group, 8 at most, are CUDA devices of one machine that reach each other's memory,
  // what they exchange goes through mailboxes there: 24 MiB of each device a group, one kernel an exchange.
  // NCCL then only brings them together. Off on one rank: off on all.
  bool mailboxes = true;

  // The rank's, by its number in that space. The transport makes it current where that matters and leaves the
  // callers' threads as they are. None: the device that is current on the thread that makes the transport.
  std::optional<int> device;
};

// Collective. A rank that is lost, or fails, ends the others' groups: streams that wait are let go, their
// results worthless, and every later call throws Error(lost_rank). So whoever has waited for a stream makes
// one more call (no bytes will do) before he trusts what is there. Throws Error(environment) where the
// library is absent or old.
SAMEBITS_API std::shared_ptr<Transport> nccl_transport(const NcclOptions& options);

SAMEBITS_API std::string nccl_unique_id(const std::string& library = {});

struct NcclStatus {
  bool found = false;
  std::string library, version;  // the file and, for instance, "2.27.3"
  std::string problem;           // where none was found, or none that will do
};
SAMEBITS_API NcclStatus nccl_status(const std::string& library = {});

}  // namespace samebits
