#include "block/process_group.hpp"

#include <numeric>
#include <utility>
#include <vector>

namespace samebits::tools {
namespace {

class ProcessGroup final : public Transport {
 public:
  explicit ProcessGroup(std::shared_ptr<Transport> group) : group_(std::move(group)) {}

  std::string name() const override { return group_->name(); }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  bool reaches(MemorySpace space) const override { return group_->reaches(space); }
  bool concurrent(MemorySpace space) const override { return group_->concurrent(space); }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    group_->all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    group_->all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<ProcessGroup>(group_->subgroup(ranks));
  }
  void abort(const std::string&) noexcept override {}

 private:
  std::shared_ptr<Transport> group_;
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
