// A host program with its own way of moving bytes: a mailbox a pair of ranks, used through
// TransportCallbacks.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.hpp"
#include "samebits/transport.hpp"

namespace samebits::test {

void run_callback_world(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body);

// For bytes that lie in the memory of the engine's device. `concurrent`: as in TransportCallbacks.
void run_callback_world_on(engine::Engine& engine, int ranks, bool concurrent,
                           const std::function<void(int, std::shared_ptr<Transport>)>& body);

}  // namespace samebits::test
