#include "block/on_ranks.hpp"

#include <optional>

#include "block/layout_refused.hpp"

namespace samebits::tools {

void on_ranks_of(const Layout& layout, const World& world, const std::function<void()>& body) {
  std::optional<LayoutRefused> refusal;
  if (world.rank() < layout.ranks()) {
    try {
      body();
    } catch (const LayoutRefused& refused) {
      refusal = refused;
    }
  }
  // Those that had no part hear of it too.
  try {
    world.together([&] {
      if (refusal) throw Error(*refusal);
    });
  } catch (const KnownToAll& refused) {
    throw LayoutRefused(refused.code(), refused.what());
  }
}

}  // namespace samebits::tools
