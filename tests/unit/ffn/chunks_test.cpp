// How a call's rows are cut into chunks, against counting.
#include "ffn/tensor/chunks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/values.hpp"

namespace samebits::ffn {
namespace {

TEST(Chunks, FewCallsHaveMoreThanOne) {
  const ChunkRule rule;  // at most 4, of 512 rows, by 128
  EXPECT_EQ(chunk_rows(rule, 0), 0);
  EXPECT_EQ(chunk_rows(rule, 1), 1);
  EXPECT_EQ(chunk_rows(rule, 1023), 1023);
  EXPECT_EQ(chunk_rows(rule, 1024), 512);
  EXPECT_EQ(chunk_rows(rule, 1030), 640);
  EXPECT_EQ(chunk_rows(rule, 1536), 512);
  EXPECT_EQ(chunk_rows(rule, 8192), 2048);
  EXPECT_EQ(longest_chunk(rule, 8192), 2048);
  EXPECT_EQ(longest_chunk(rule, 1024), 1023);
}

TEST(Chunks, AreAsTheRuleSays) {
  test::Random random(12);
  for (int round = 0; round < 300; ++round) {
    const ChunkRule rule{test::uniform(random, 1, 7), test::uniform(random, 1, 30),
                         test::uniform(random, 1, 20)};
    std::int64_t longest = 0;
    for (std::int64_t rows = 0; rows < 200; ++rows) {
      const std::int64_t step = chunk_rows(rule, rows);
      longest = std::max(longest, step);
      ASSERT_EQ(longest_chunk(rule, rows), longest) << rows;
      ASSERT_LE(step, rows);
      if (step == rows) continue;
      ASSERT_LE((rows + step - 1) / step, rule.most) << rows;
      ASSERT_GE(step, rule.least_rows) << rows;
      ASSERT_EQ(step % rule.multiple, 0) << rows;
    }
  }
}

}  // namespace
}  // namespace samebits::ffn
