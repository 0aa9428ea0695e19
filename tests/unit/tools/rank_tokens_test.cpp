#include "block/rank_tokens.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

using Intervals = std::vector<Interval>;

TEST(RankTokens, ContextRanksHoldTheirShards) {
  const auto shards = TokenShards::zigzag(16, 2);
  EXPECT_EQ(tokens_of_rank(shards, {2, 2, false}, 0), (Intervals{{0, 4}, {12, 16}}));
  EXPECT_EQ(tokens_of_rank(shards, {2, 2, false}, 1), (Intervals{{0, 4}, {12, 16}}));
  EXPECT_EQ(tokens_of_rank(shards, {2, 2, false}, 2), (Intervals{{4, 12}}));
}

TEST(RankTokens, SequenceParallelRanksSliceThem) {
  const auto shards = TokenShards::zigzag(16, 2);
  EXPECT_EQ(tokens_of_rank(shards, {3, 2, true}, 0), (Intervals{{0, 2}}));
  EXPECT_EQ(tokens_of_rank(shards, {3, 2, true}, 1), (Intervals{{2, 4}, {12, 13}}));
  EXPECT_EQ(tokens_of_rank(shards, {3, 2, true}, 2), (Intervals{{13, 16}}));
}

TEST(RankTokens, TheSlicesOfAllRanksTileTheSequence) {
  for (const std::int64_t tokens : {0, 1, 5, 37}) {
    for (const Layout layout : {Layout{1, 1, false}, {5, 3, true}, {8, 2, true}, {2, 7, true}}) {
      for (const auto& shards :
           {TokenShards::contiguous(tokens, layout.cp), TokenShards::zigzag(tokens, layout.cp)}) {
        std::vector<int> holders(static_cast<std::size_t>(tokens));
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          for (const Interval& interval : tokens_of_rank(shards, layout, rank)) {
            for (std::int64_t token = interval.begin; token < interval.end; ++token) ++holders[token];
          }
        }
        for (const int count : holders) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(RankTokens, LocalRowsAreTheRanksRows) {
  const std::uint16_t whole[] = {0, 1, 10, 11, 20, 21, 30, 31};
  const HostTensor local = local_rows(host_view(static_cast<const void*>(whole), 4, 2), {{0, 1}, {2, 4}});
  const auto* rows = static_cast<const std::uint16_t*>(local.view().data);
  EXPECT_EQ((std::vector<std::uint16_t>(rows, rows + 6)), (std::vector<std::uint16_t>{0, 1, 20, 21, 30, 31}));
}

}  // namespace
}  // namespace samebits::tools
