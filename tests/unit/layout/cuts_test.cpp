#include "layout/cuts.hpp"

#include <gtest/gtest.h>

#include "samebits/contract.hpp"

namespace samebits::layout {
namespace {

numerics::AxisTree tree(const char* contract, std::int64_t length) {
  const Contract c = parse_contract(contract);
  return numerics::axis_tree(c, c.intermediate, length);
}

TEST(LeafCuts, EqualWhereTheyExist) {
  EXPECT_EQ(leaf_cuts(tree("sm90-v1", 12288), 8),
            (std::vector<std::int64_t>{0, 1536, 3072, 4608, 6144, 7680, 9216, 10752, 12288}));
  EXPECT_EQ(leaf_cuts(tree("hf-sm90-v1", 12288), 1), (std::vector<std::int64_t>{0, 12288}));
}

TEST(LeafCuts, NearestBoundariesElsewhere) {
  // Eight leaves of 1536 over three ranks: boundaries nearest to 4096 and 8192.
  EXPECT_EQ(leaf_cuts(tree("sm90-v1", 12288), 3), (std::vector<std::int64_t>{0, 4608, 7680, 12288}));
  // Every rank keeps a leaf.
  const auto cuts = leaf_cuts(tree("sm90-v1", 12288), 7);
  ASSERT_EQ(cuts.size(), 8u);
  for (std::size_t i = 1; i < cuts.size(); ++i) EXPECT_GT(cuts[i], cuts[i - 1]);
}

TEST(LeafCuts, NoneWhereRanksOutnumberLeaves) {
  EXPECT_TRUE(leaf_cuts(tree("sm90-v1", 12288), 9).empty());
  EXPECT_TRUE(leaf_cuts(tree("hf-sm90-v1", 12288), 2).empty());
  EXPECT_EQ(legal_degrees(tree("sm90-v1", 12288)), "1 to 8");
  EXPECT_EQ(legal_degrees(tree("hf-sm90-v1", 12288)), "1");
}

TEST(LeafCuts, EveryCutStandsBetweenLeaves) {
  for (const char* contract : {"bf16-tree-v1", "f32-tree-v1,I=block:48", "sm90-v1,I=max:80", "gfx942-v1"}) {
    for (std::int64_t length = 1; length < 700; length += 13) {
      for (int tp = 1; tp < 9; ++tp) {
        const auto axis = tree(contract, length);
        for (const std::int64_t cut : leaf_cuts(axis, tp)) EXPECT_TRUE(axis.cuts_between_leaves(cut));
      }
    }
  }
}

TEST(TokenCuts, SeeCutsInsideLeaves) {
  const Contract contract = parse_contract("f32-tree-v1,T=block:8");
  const auto axis = numerics::axis_tree(contract, contract.tokens, 30);
  EXPECT_TRUE(cuts_between_leaves(axis, TokenShards::of({{{0, 16}}, {{16, 30}}}).of_rank));
  EXPECT_FALSE(cuts_between_leaves(axis, TokenShards::of({{{0, 15}}, {{15, 30}}}).of_rank));
  EXPECT_TRUE(cuts_between_leaves(axis, TokenShards::of({{}, {{0, 30}}}).of_rank));
}

}  // namespace
}  // namespace samebits::layout
