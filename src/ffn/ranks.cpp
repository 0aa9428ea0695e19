#include "ffn/ranks.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::ffn {

Ranks make_ranks(const Layout& layout, std::shared_ptr<Transport> transport) {
  if (layout.tp < 1 || layout.cp < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tp {} and cp {}: degrees count from 1", layout.tp, layout.cp));
  }
  if (!transport) transport = self_transport();
  if (transport->size() != layout.ranks()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("layout {} has {} ranks, the transport has {}",
                                                         name_of(layout), layout.ranks(), transport->size()));
  }
  Ranks ranks{layout.tp, layout.cp, transport->rank() % layout.tp, transport->rank() / layout.tp, transport,
              {},        {}};
  std::vector<int> members;
  if (layout.tp > 1) {
    for (int t = 0; t < layout.tp; ++t) members.push_back(ranks.cp_rank * layout.tp + t);
    ranks.tensor = transport->subgroup(members);
  }
  members.clear();
  if (layout.cp > 1) {
    for (int c = 0; c < layout.cp; ++c) members.push_back(c * layout.tp + ranks.tp_rank);
    ranks.context = transport->subgroup(members);
  }
  return ranks;
}

}  // namespace samebits::ffn
