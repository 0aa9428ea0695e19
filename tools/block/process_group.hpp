// The processes that play the ranks of one layout, as a plan sees them. A plan that cannot go on aborts its
// group, and an aborted world is over. But a layout that is refused, by all its ranks alike, must not end the
// run: so an abort is not passed on, and whoever catches the failure tells the world, or does not.
#pragma once

#include <memory>

#include "samebits/transport.hpp"

namespace samebits::tools {

// Ranks 0 .. ranks - 1 of the world, called by them.
std::shared_ptr<Transport> process_group(Transport& world, int ranks);

// A collective of no bytes. Host memory: every rank waits for every other. On a device nothing is enqueued,
// and what the transport has found since the last call is thrown.
void exchange_nothing(Transport& group, MemorySpace space);

}  // namespace samebits::tools
