// What a call moves between ranks, from sizes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "samebits/export.hpp"
#include "samebits/layout.hpp"
#include "samebits/plan.hpp"

namespace samebits {

enum class CollectiveKind { all_gather, all_to_all };
SAMEBITS_API const char* name_of(CollectiveKind kind);

// One collective of a call, or several of the same kind behind each other, for one rank. Bytes are those that
// leave for and come from other ranks.
struct Collective {
  std::string what;  // "x", "cover of y", ...
  CollectiveKind kind = CollectiveKind::all_gather;
  int ranks = 1;  // of its group: tensor ranks, or context ranks
  bool over_context = false;
  std::int64_t times = 1;
  std::size_t sent = 0, received = 0;
  bool between_machines = false;  // PlanOptions::ranks_per_node, two levels: no two of its ranks share one
};

struct CallTraffic {
  std::vector<Collective> forward, backward;  // by when each begins; backward with dX and all gradients
};

// Of rank `rank` of the layout, for a plan made with `options` and called with these shards; gradients of
// `gradients`. No memory is needed, no engine and no transport: without an engine it is one that finishes
// covers of any number of nodes, as the CPU's does; without a transport, exchanges may overlap. Throws
// Error(refused) where the plan would.
SAMEBITS_API CallTraffic traffic_of(const PlanOptions& options, const TokenShards& shards, int rank,
                                    DType gradients = DType::bf16);

}  // namespace samebits
