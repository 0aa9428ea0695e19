#include "block/process_group.hpp"

#include <numeric>
#include <vector>

#include "transport/forwarding.hpp"

namespace samebits::tools {
namespace {

class ProcessGroup final : public transport::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace space) override {
    return inner().open_window(memory, space);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<ProcessGroup>(inner().subgroup(ranks));
  }
  void abort(const std::string&) noexcept override {}
};

}  // namespace

std::shared_ptr<Transport> process_group(Transport& world, int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return std::make_shared<ProcessGroup>(world.subgroup(members));
}

void exchange_nothing(Transport& group, MemorySpace space) {
  const std::vector<std::size_t> nothing(static_cast<std::size_t>(group.size()));
  group.all_gather(nullptr, nullptr, nothing, space, {});
}

}  // namespace samebits::tools
