// Who the other ranks are, so that a lost one has a name, and whether their processes still run.
#pragma once

#include <string>
#include <vector>

namespace samebits::transport::nccl {

// What a rank tells the others of itself.
struct Identity {
  char host[64] = {};
  char kernel[40] = {};     // the boot id: one a running machine
  char processes[40] = {};  // the process namespace, in which `process` means something
  long long process = 0;
};
Identity own_identity();

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

class Peer {
 public:
  Peer(int rank, const Identity& identity, const Identity& mine);

  std::string name() const;  // "rank 2 (gpu-node-1, process 4711)"
  // Its process is gone. Of a process of another machine or container, never.
  bool ended() const;

 private:
  int rank_;
  std::string where_;
  Descriptor process_;  // where it can be watched
};

}  // namespace samebits::transport::nccl
