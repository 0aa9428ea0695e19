#include "block/run_ranks.hpp"

namespace samebits::tools {

void run_ranks(const Layout& layout, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  if (layout.ranks() == 1) {
    body(0, nullptr);
  } else {
    run_local(layout.ranks(), body);
  }
}

}  // namespace samebits::tools
