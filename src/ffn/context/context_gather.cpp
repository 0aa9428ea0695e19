#include "ffn/context/context_gather.hpp"

#include <numeric>

namespace samebits::ffn {

ContextGather::ContextGather(const Ranks& ranks)
    : ranks_(ranks),
      across_(static_cast<std::size_t>(ranks.levels.nodes)),
      inside_(static_cast<std::size_t>(ranks.levels.per_node)) {}

void ContextGather::run(const void* send, void* receive, std::span<const std::size_t> bytes,
                        MemorySpace space, Queue queue) {
  const Levels& levels = ranks_.levels;
  if (!levels.two()) {
    ranks_.context->all_gather(send, receive, bytes, space, queue);
    return;
  }
  // Slots of one place are neighbours: what this rank gathers between machines is the run that it hands on.
  const auto place = static_cast<std::size_t>(levels.place_of(ranks_.cp_rank));
  for (std::size_t at = 0; at < inside_.size(); ++at) {
    inside_[at] = 0;
    for (std::size_t node = 0; node < across_.size(); ++node) {
      const std::size_t part = bytes[node * inside_.size() + at];
      inside_[at] += part;
      if (at == place) across_[node] = part;
    }
  }
  auto* const run =
      static_cast<unsigned char*>(receive) +
      std::accumulate(inside_.begin(), inside_.begin() + static_cast<std::ptrdiff_t>(place), std::size_t{0});
  levels.across->all_gather(send, run, across_, space, queue);
  levels.inside->all_gather(run, receive, inside_, space, queue);
}

}  // namespace samebits::ffn
