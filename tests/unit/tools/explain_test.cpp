// What bench --explain and the column `moves` count is a plan of the engine that computes.
#include "bench/explain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "support/few_nodes_engine.hpp"

namespace samebits::tools {
namespace {

// Eight context ranks, a leaf each: eight nodes come together.
bool exchanges_covers(const Compute& compute) {
  const Explained row = explain(compute, {32, 48}, {.cp = 8}, 64, Direction::both);
  return std::any_of(row.collectives.begin(), row.collectives.end(),
                     [](const Collective& c) { return c.what.starts_with("covers of"); });
}

TEST(Explain, CountsForTheEngineThatComputes) {
  ComputeFlags flags;
  flags.contract = "f32-tree-v1,T=block:8";
  Compute compute(flags);
  EXPECT_TRUE(exchanges_covers(compute));
  compute.device_engine = std::make_shared<test::FewNodesEngine>(8);
  EXPECT_TRUE(exchanges_covers(compute));
  compute.device_engine = std::make_shared<test::FewNodesEngine>(7);
  EXPECT_FALSE(exchanges_covers(compute));
}

}  // namespace
}  // namespace samebits::tools
