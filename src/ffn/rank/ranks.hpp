// The ranks of a plan: this rank's place in the grid, and its groups.
#pragma once

#include <memory>
#include <vector>

#include "samebits/plan.hpp"

namespace samebits::ffn {

// Context ranks on several machines, equally many on each: two levels of groups. One level is one machine.
struct Levels {
  int nodes = 1;                      // machines
  int per_node = 1;                   // context ranks on each
  std::shared_ptr<Transport> inside;  // those of this rank's machine; null in one level
  std::shared_ptr<Transport> across;  // those that have its place on every machine

  bool two() const { return nodes > 1; }
  int node_of(int rank) const { return rank / per_node; }
  int place_of(int rank) const { return rank % per_node; }

  // Where a rank's slice stands among those of all: ranks of one place behind each other, so that what one of
  // them gathers between machines is a run of slices.
  int slot_of(int rank) const { return two() ? place_of(rank) * nodes + node_of(rank) : rank; }
  int rank_at(int slot) const { return two() ? slot % nodes * per_node + slot / nodes : slot; }
};

struct Ranks {
  int tp = 1, cp = 1;
  int tp_rank = 0, cp_rank = 0;
  std::shared_ptr<Transport> all;
  std::shared_ptr<Transport> tensor;   // ranks of one context rank; null when tp is 1
  std::shared_ptr<Transport> context;  // ranks of one tensor rank; null when cp is 1
  Levels levels;                       // of the context group

  // A context rank's slice of `count` things.
  Interval slice(std::int64_t count, int rank) const { return even_slice(count, cp, levels.slot_of(rank)); }
};

// How many of `cp` context ranks stand together on a machine; 1: one level.
int context_ranks_per_node(const Layout& layout, int ranks_per_node);

Ranks make_ranks(const Layout& layout, std::shared_ptr<Transport> transport, int ranks_per_node);

}  // namespace samebits::ffn
