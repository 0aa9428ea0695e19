// A build with neither CUDA nor HIP: host memory alone, which tests use.
#include <cstring>
#include <new>

#include "transport/nccl_device.hpp"

namespace samebits::transport::nccl {

int current_device(MemorySpace) { return 0; }
void make_current(int, MemorySpace) {}
void leave_captures_alone(MemorySpace) {}

Scratch::Scratch(std::size_t bytes, int device, MemorySpace space)
    : space_(space), device_(device), data_(static_cast<unsigned char*>(::operator new(bytes))) {}
Scratch::~Scratch() { ::operator delete(data_); }
void Scratch::write(std::size_t at, const void* from, std::size_t bytes) {
  std::memcpy(data_ + at, from, bytes);
}
void Scratch::read(std::size_t at, void* to, std::size_t bytes) const { std::memcpy(to, data_ + at, bytes); }

struct Probe::Events {};
Probe::Probe(int, MemorySpace) {}
Probe::~Probe() = default;
void Probe::before(Queue) {}
void Probe::after(Queue) {}
bool Probe::running() const { return false; }

}  // namespace samebits::transport::nccl
