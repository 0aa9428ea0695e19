// Before the first exchange all ranks compare what they were given; all refuse together, naming the rank and
// the field.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/engine.hpp"
#include "samebits/plan.hpp"

namespace samebits::ffn {

struct AgreedField {
  std::string_view name;
  std::string value;
};

// Collective. Compares with rank 0's; throws Error(disagreement) on all ranks where one differs.
void agree(Transport& transport, engine::Engine& engine, std::span<const AgreedField> fields);

// `options` as they were given, with a transport. Travels through the engine's memory, which the transport
// reaches. Says whether the exchanges of all ranks may overlap with what the ranks compute.
bool shake_hands(const PlanOptions& options, engine::Engine& engine);

}  // namespace samebits::ffn
