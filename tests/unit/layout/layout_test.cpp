#include "samebits/layout.hpp"

#include <gtest/gtest.h>

#include "samebits/error.hpp"

namespace samebits {
namespace {

TEST(Layout, NamesGoBothWays) {
  for (const char* name : {"tp1", "tp2", "tp2+sp", "tp4+cp2", "tp2+cp2+sp", "cp3", "tp8"}) {
    EXPECT_EQ(name_of(parse_layout(name)), name);
  }
  EXPECT_EQ(name_of(parse_layout("cp2+tp4")), "tp4+cp2");
  EXPECT_EQ(parse_layout("tp4+cp2+sp"), (Layout{4, 2, true}));
}

TEST(Layout, RefusesWhatIsNoLayout) {
  for (const char* text :
       {"", "tp", "tp0", "tp-1", "tp2+", "+tp2", "tp2+tp2", "tp2+sp+sp", "sp", "dp2", "tp99999", "tp2 "}) {
    EXPECT_THROW(parse_layout(text), Error) << text;
  }
}

TEST(EvenSlice, TilesAndStaysWithinOne) {
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{1} << 61}) {
    for (const int parts : {1, 2, 3, 8, 4096}) {
      std::int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Interval slice = even_slice(count, parts, part);
        ASSERT_EQ(slice.begin, next);
        ASSERT_GE(slice.length(), count / parts);
        ASSERT_LE(slice.length(), count / parts + 1);
        next = slice.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(TokenShards, ContiguousAndZigzagTileTheSequence) {
  for (const std::int64_t tokens : {0, 1, 3, 17, 64}) {
    for (const int cp : {1, 2, 3, 5}) {
      const TokenShards zigzag = TokenShards::zigzag(tokens, cp);
      EXPECT_EQ(TokenShards::of(zigzag.of_rank).tokens, tokens);
      EXPECT_EQ(TokenShards::of(TokenShards::contiguous(tokens, cp).of_rank).tokens, tokens);
      std::int64_t total = 0;
      for (int rank = 0; rank < cp; ++rank) total += zigzag.count(rank);
      EXPECT_EQ(total, tokens);
    }
  }
  const TokenShards four = TokenShards::zigzag(16, 2);
  EXPECT_EQ(four.of_rank[0], (std::vector<Interval>{{0, 4}, {12, 16}}));
  EXPECT_EQ(four.of_rank[1], (std::vector<Interval>{{4, 12}}));  // neighbours are one interval
}

TEST(TokenShards, RefusesGapsOverlapsAndDisorder) {
  EXPECT_THROW(TokenShards::of({{{0, 4}}, {{5, 8}}}), Error);
  EXPECT_THROW(TokenShards::of({{{0, 4}}, {{3, 8}}}), Error);
  EXPECT_THROW(TokenShards::of({{{4, 8}, {0, 4}}}), Error);
  EXPECT_THROW(TokenShards::of({{{4, 2}}}), Error);
  EXPECT_THROW(TokenShards::of({{{1, 2}}}), Error);
}

}  // namespace
}  // namespace samebits
