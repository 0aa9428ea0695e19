#include "ffn/rank/ranks.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::ffn {

int context_ranks_per_node(const Layout& layout, int ranks_per_node) {
  if (ranks_per_node < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} ranks a node", ranks_per_node));
  }
  if (ranks_per_node % layout.tp != 0) return 1;  // tensor ranks of several machines
  const int together = ranks_per_node / layout.tp;
  return together > 1 && together < layout.cp && layout.cp % together == 0 ? together : 1;
}

Ranks make_ranks(const Layout& layout, std::shared_ptr<Transport> transport, int ranks_per_node) {
  if (layout.tp < 1 || layout.cp < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tp {} and cp {}: degrees count from 1", layout.tp, layout.cp));
  }
  if (!transport) transport = self_transport();
  const std::int64_t wanted = std::int64_t{layout.tp} * layout.cp;
  if (transport->size() != wanted) {
    throw Error(ErrorCode::invalid_argument, fmt::format("layout {} has {} ranks, the transport has {}",
                                                         name_of(layout), wanted, transport->size()));
  }
  Ranks ranks{
      layout.tp, layout.cp, transport->rank() % layout.tp, transport->rank() / layout.tp, transport, {},
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
  Levels& levels = ranks.levels;
  levels.per_node = context_ranks_per_node(layout, ranks_per_node);
  if (levels.per_node == 1) return ranks;
  levels.nodes = layout.cp / levels.per_node;
  members.clear();
  for (int c = 0; c < levels.per_node; ++c)
    members.push_back(levels.node_of(ranks.cp_rank) * levels.per_node + c);
  levels.inside = ranks.context->subgroup(members);
  members.clear();
  for (int node = 0; node < levels.nodes; ++node)
    members.push_back(node * levels.per_node + levels.place_of(ranks.cp_rank));
  levels.across = ranks.context->subgroup(members);
  return ranks;
}

}  // namespace samebits::ffn
