// A layout whose ranks are processes: who takes part, and what all of them hear of it.
#pragma once

#include <functional>

#include "samebits/layout.hpp"
#include "world/world.hpp"

namespace samebits::tools {

// Collective over the world. Runs `body` on the layout's processes, ranks 0 and up. Where it throws
// LayoutRefused, as it does on all of them then, every process of the world throws that.
void on_ranks_of(const Layout& layout, const World& world, const std::function<void()>& body);

}  // namespace samebits::tools
