// An engine for tests: the contractions of every stage by the hip engine's tile kernel, run on the host by
// EmulatedGroup; memory, copies and finishing trees from covers are the CPU engine's.
#pragma once

#include <memory>

#include "engine/engine.hpp"

namespace samebits::test {

std::shared_ptr<engine::Engine> emulated_tiles();

}  // namespace samebits::test
