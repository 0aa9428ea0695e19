// Exchanges that can be left out, to find what they cost: the same plan makes the same calls without them.
#pragma once

#include <memory>

#include "samebits/transport.hpp"

namespace samebits::tools {

// Moves what `transport` moves while *silent is false, and nothing, not even a rank's own part, while it is
// true. What receives keeps what it held. Its subgroups do likewise. Ranks turn silent together.
std::shared_ptr<Transport> silenceable(std::shared_ptr<Transport> transport,
                                       std::shared_ptr<const bool> silent);

}  // namespace samebits::tools
