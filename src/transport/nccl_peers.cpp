#include "transport/nccl_peers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace samebits::transport::nccl {
namespace {

// A descriptor that becomes readable when the process ends; -1 where the kernel has none.
int watch(long long process) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U));
#else
  static_cast<void>(process);
  return -1;
#endif
}

// In another process of this machine, whose number this process can use.
bool is_neighbour(const Identity& other, const Identity& mine) {
  return mine.kernel[0] != 0 && mine.processes[0] != 0 && other.process != mine.process &&
         std::strcmp(other.kernel, mine.kernel) == 0 && std::strcmp(other.processes, mine.processes) == 0;
}

}  // namespace

Identity own_identity() {
  Identity mine;
  gethostname(mine.host, sizeof mine.host - 1);
  std::ifstream("/proc/sys/kernel/random/boot_id").get(mine.kernel, sizeof mine.kernel);
  if (readlink("/proc/self/ns/pid", mine.processes, sizeof mine.processes - 1) < 0) mine.processes[0] = 0;
  mine.process = getpid();
  return mine;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Peer::Peer(int rank, const Identity& identity, const Identity& mine)
    : rank_(rank),
      where_(fmt::format("{}, process {}", identity.host, identity.process)),
      process_(is_neighbour(identity, mine) ? watch(identity.process) : -1) {}

std::string Peer::name() const { return fmt::format("rank {} ({})", rank_, where_); }

bool Peer::ended() const {
  if (process_.number() < 0) return false;
  pollfd poll_for{process_.number(), POLLIN, 0};
  return poll(&poll_for, 1, 0) == 1 && (poll_for.revents & POLLIN) != 0;
}

}  // namespace samebits::transport::nccl
