// What the NCCL transport asks of a device beside copies: which one is current, a little memory of its own,
// and where a queue stands.
#pragma once

#include <cstddef>
#include <memory>

#include "samebits/memory.hpp"

namespace samebits::transport::nccl {

int current_device(MemorySpace space);
void make_current(int device, MemorySpace space);  // on this thread, which is one of the transport's

// This thread asks after queues while another may be capturing one: no capture is to break because of that.
void leave_captures_alone(MemorySpace space);

// Memory of a device, written and read from the host; whatever device is current.
class Scratch {
 public:
  Scratch(std::size_t bytes, int device, MemorySpace space);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  unsigned char* data() const { return data_; }
  void write(std::size_t at, const void* from, std::size_t bytes);
  void read(std::size_t at, void* to, std::size_t bytes) const;

 private:
  MemorySpace space_;
  int device_;
  unsigned char* data_ = nullptr;
};

// Whether the newest work that was put between before() and after() has begun and is not over; and work on
// one queue behind that on another before it, since a group has one collective at a time. Work that is being
// captured is none. Host memory: never, since it is over when after() is called.
class Probe {
 public:
  Probe(int device, MemorySpace space);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void before(Queue queue);
  void after(Queue queue);
  bool running() const;

 private:
  struct Events;
  std::unique_ptr<Events> events_;
};

}  // namespace samebits::transport::nccl
