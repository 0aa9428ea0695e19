// Bytes of one memory space, moved on a queue and waited for.
#pragma once

#include <cstddef>

#include "samebits/memory.hpp"

namespace samebits::transport {

bool can_reach(MemorySpace space);  // whether this build moves bytes there

// Copies on the queue; both addresses lie in `space`, and do not overlap. Host memory is done on return.
void copy(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue);

// Waits until the queue's work is done: what it wrote can be read by anybody, and what it read overwritten.
// `address` is one of those that the work touches; it says which device the null queue belongs to.
void wait_for(const void* address, MemorySpace space, Queue queue);

}  // namespace samebits::transport
