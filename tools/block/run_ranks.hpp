// The ranks of a layout as threads.
#pragma once

#include <functional>
#include <memory>

#include "samebits/layout.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {

// body(rank, transport) for every rank; a layout of one rank has no transport. Throws what the rank that
// failed threw.
void run_ranks(const Layout& layout, const std::function<void(int, std::shared_ptr<Transport>)>& body);

}  // namespace samebits::tools
