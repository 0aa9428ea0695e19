// What all ranks of the world must have been given alike, field by field.
#pragma once

#include <string>
#include <vector>

#include "world/world.hpp"

namespace samebits::tools {

struct AgreedField {
  std::string name;  // as a person would call it: "seed"
  std::string value;
};

// Collective. Every rank passes the same names in the same order, as far as it was given the same verb, which
// comes first. Throws KnownToAll(disagreement), on every rank for the same field, when one rank has another
// value than rank 0.
void agree(const World& world, const std::vector<AgreedField>& fields);

}  // namespace samebits::tools
