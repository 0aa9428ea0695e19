// Ranks that were given different things all find the same difference.
#include "world/agreement.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

// The line that every rank throws when rank r has `fields[r]`; empty when none does.
std::string difference(const std::vector<std::vector<AgreedField>>& fields) {
  std::vector<std::string> lines(fields.size());
  run_local(static_cast<int>(fields.size()), [&](int rank, std::shared_ptr<Transport> transport) {
    const auto r = static_cast<std::size_t>(rank);
    const World world(std::move(transport));
    try {
      agree(world, fields[r]);
    } catch (const KnownToAll& error) {
      EXPECT_EQ(error.code(), ErrorCode::disagreement);
      lines[r] = error.what();
    }
  });
  for (const std::string& line : lines) EXPECT_EQ(line, lines.front());
  return lines.front();
}

std::vector<AgreedField> fields_with(const std::string& seed, const std::string& tokens) {
  return {{"seed", seed}, {"layer", ""}, {"tokens", tokens}};
}

TEST(Agreement, NamesTheRankTheFieldAndBothValues) {
  const auto good = fields_with("0", "32"), more = fields_with("0", "33"), other = fields_with("7", "33");
  EXPECT_EQ(difference({good, good, good}), "");
  EXPECT_EQ(difference({good, good, more}), "rank 2 has tokens 33, rank 0 has 32");
  EXPECT_EQ(difference({good, other, good}), "rank 1 has seed 7, rank 0 has 0");
  EXPECT_EQ(difference({other, other, good}), "rank 2 has seed 0, rank 0 has 7");
}

TEST(Agreement, VerbsWithOtherFields) {
  EXPECT_EQ(difference({{{"the verb", "run"}, {"layer", "1"}}, {{"the verb", "verify"}}}),
            "rank 1 has the verb verify, rank 0 has run");
}

}  // namespace
}  // namespace samebits::tools
