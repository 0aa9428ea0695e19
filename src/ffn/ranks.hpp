// The ranks of a plan: this rank's place in the grid, its groups, and what its shard of every axis is.
#pragma once

#include <memory>
#include <vector>

#include "samebits/plan.hpp"

namespace samebits::ffn {

struct Ranks {
  int tp = 1, cp = 1;
  int tp_rank = 0, cp_rank = 0;
  std::shared_ptr<Transport> all;
  std::shared_ptr<Transport> tensor;   // ranks of one context rank; null when tp is 1
  std::shared_ptr<Transport> context;  // ranks of one tensor rank; null when cp is 1
};

Ranks make_ranks(const Layout& layout, std::shared_ptr<Transport> transport);

}  // namespace samebits::ffn
