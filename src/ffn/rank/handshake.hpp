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

// Collective. Fields are compared place by place, with those of the first rank that has the place by the same
// name: "gate of tensor rank 1" among the ranks that hold it. Throws Error(disagreement) on all ranks where
// one differs.
void agree(Transport& transport, engine::Engine& engine, std::span<const AgreedField> fields);

// `options` as they were given, with a transport. Travels through the engine's memory, which the transport
// reaches. Says whether the exchanges of all ranks may overlap with what the ranks compute.
bool shake_hands(const PlanOptions& options, engine::Engine& engine);

}  // namespace samebits::ffn
