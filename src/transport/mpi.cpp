// Ranks as processes of an MPI world. MPI moves bytes from rank to rank and nothing else: its collectives
// would wait forever for a rank that is gone, and its reductions add. Device memory goes through the host,
// whatever the MPI can do.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "transport/group.hpp"
#include "transport/memory.hpp"
#include "transport/mpi_world.hpp"
#include "transport/staged_exchange.hpp"

namespace samebits {
namespace {

using transport::check_counts;
using transport::Incoming;
using transport::MpiWorld;
using transport::Outgoing;
using transport::StagedExchange;

// What all groups of a process share.
struct Shared {
  explicit Shared(const MpiOptions& options) : world(options) {
    auto link = transport::make_host_link(transport::device_space(), StagedExchange::kMarks);
    if (!link) return;
    device.emplace(std::move(link),
                   [this](auto incoming, auto outgoing) { world.exchange(incoming, outgoing); });
  }

  MpiWorld world;
  std::optional<StagedExchange> device;  // where this build moves device memory
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<Shared> shared, transport::Members members)
      : shared_(std::move(shared)), members_(std::move(members)) {}

  std::string name() const override { return "mpi"; }
  int rank() const override { return members_.rank; }
  int size() const override { return static_cast<int>(members_.of_world.size()); }
  bool reaches(MemorySpace space) const override { return transport::can_reach(space); }
  // One lock for all calls; what lies on a device is waited for on the host.
  bool concurrent(MemorySpace space) const override { return space == MemorySpace::host; }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    check_counts(bytes, size());
    check_space(space);
    std::vector<Incoming> incoming;
    std::vector<Outgoing> outgoing;
    auto* to = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < bytes.size(); ++r) {
      if (is_me(r)) {
        if (to != send) keep(to, send, bytes[r], space, queue);
      } else {
        incoming.push_back({members_.of_world[r], to, bytes[r]});
        outgoing.push_back({members_.of_world[r], send, bytes[static_cast<std::size_t>(members_.rank)]});
      }
      to += bytes[r];
    }
    exchange(incoming, outgoing, space, queue);
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    check_counts(send_bytes, size());
    check_counts(receive_bytes, size());
    check_space(space);
    std::vector<Incoming> incoming;
    std::vector<Outgoing> outgoing;
    auto* to = static_cast<unsigned char*>(receive);
    const auto* from = static_cast<const unsigned char*>(send);
    for (std::size_t r = 0; r < send_bytes.size(); ++r) {
      if (!is_me(r)) {
        incoming.push_back({members_.of_world[r], to, receive_bytes[r]});
        outgoing.push_back({members_.of_world[r], from, send_bytes[r]});
      } else if (send_bytes[r] != receive_bytes[r]) {
        throw Error(ErrorCode::invalid_argument, fmt::format("rank {} sends itself {} bytes and expects {}",
                                                             members_.rank, send_bytes[r], receive_bytes[r]));
      } else {
        keep(to, from, send_bytes[r], space, queue);
      }
      to += receive_bytes[r];
      from += send_bytes[r];
    }
    exchange(incoming, outgoing, space, queue);
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<MpiTransport>(shared_, transport::subgroup_of(members_, ranks));
  }

  void abort(const std::string& reason) noexcept override { shared_->world.abort(reason); }

 private:
  bool is_me(std::size_t r) const { return static_cast<int>(r) == members_.rank; }
  void check_space(MemorySpace space) const {
    if (reaches(space)) return;
    throw Error(ErrorCode::invalid_argument,
                "the mpi transport was given memory that this build cannot reach");
  }

  // What a rank has for itself.
  void keep(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue) {
    if (bytes > 0) transport::copy(to, from, bytes, space, queue);
  }

  void exchange(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing, MemorySpace space,
                Queue queue) {
    if (space == MemorySpace::host) {
      shared_->world.exchange(incoming, outgoing);
    } else if (shared_->device) {
      shared_->device->exchange(incoming, outgoing, queue);
    } else {
      throw Error(ErrorCode::internal, "the mpi transport has no way to the device memory that it reaches");
    }
  }

  std::shared_ptr<Shared> shared_;
  transport::Members members_;
};

}  // namespace

std::shared_ptr<Transport> mpi_transport(const MpiOptions& options) {
  auto shared = std::make_shared<Shared>(options);
  transport::Members members{std::vector<int>(static_cast<std::size_t>(shared->world.size())),
                             shared->world.rank()};
  std::iota(members.of_world.begin(), members.of_world.end(), 0);
  return std::make_shared<MpiTransport>(std::move(shared), std::move(members));
}

MpiStatus mpi_status() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  // Legal before MPI has begun, when there are no words for what goes wrong.
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return {true, "an MPI of unknown version"};
  std::string library(text, static_cast<std::size_t>(length));
  library.resize(std::min(library.find_first_of(",\n"), library.size()));
  if (library.rfind("Open MPI v", 0) == 0) library.erase(9, 1);
  return {true, library};
}

}  // namespace samebits
