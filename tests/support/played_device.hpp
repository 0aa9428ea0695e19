// A device played by the host, for schedules: its memory is the host's by another name, its queues are
// threads that dawdle before each piece of work. What no event orders happens in any order, as on a device.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.hpp"
#include "samebits/transport.hpp"

namespace samebits::test {

// The CPU engine on such queues.
std::shared_ptr<engine::Engine> played_device(int threads, std::uint64_t seed, int most_microseconds);

// A transport of host memory as one that enqueues: its collectives run on the queue that they are given.
std::shared_ptr<Transport> enqueuing_transport(std::shared_ptr<Transport> transport);

}  // namespace samebits::test
