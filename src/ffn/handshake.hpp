// Before the first exchange all ranks compare what they were given; all refuse together, naming the rank and
// the field.
#pragma once

#include "engine/engine.hpp"
#include "samebits/plan.hpp"

namespace samebits::ffn {

// `options` as they were given, with a transport. Travels through the engine's memory, which the transport
// reaches. Says whether the exchanges of all ranks may overlap with what the ranks compute.
bool shake_hands(const PlanOptions& options, engine::Engine& engine);

}  // namespace samebits::ffn
