// A layout on processes, and what those without a part in it hear. Threads stand for the processes.
#include "block/on_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "block/layout_refused.hpp"

namespace samebits::tools {
namespace {

TEST(OnRanks, OnlyTheLayoutsRanksTakePart) {
  std::atomic<int> ran = 0;
  run_local(3, [&](int rank, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport), "threads");
    on_ranks_of({.tp = 2}, world, [&] {
      EXPECT_LT(rank, 2);
      ++ran;
    });
  });
  EXPECT_EQ(ran, 2);
}

TEST(OnRanks, ARefusalReachesEveryRank) {
  std::atomic<int> refused = 0;
  run_local(3, [&](int, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport), "threads");
    const auto body = [] { throw Error(ErrorCode::refused, "a cut inside a leaf"); };
    try {
      on_ranks_of({.tp = 2}, world, [&] { allowed(body); });
    } catch (const LayoutRefused& error) {
      EXPECT_NE(std::string(error.what()).find("a cut inside a leaf"), std::string::npos);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

// What one rank alone throws ends it at once: the others may stand in an exchange and never come together.
TEST(OnRanks, AFailureOfOneRankIsNoRefusal) {
  for (const ErrorCode code : {ErrorCode::out_of_memory, ErrorCode::refused}) {
    try {
      run_local(3, [&](int rank, std::shared_ptr<Transport> transport) {
        const World world(transport, "threads");
        on_ranks_of({.tp = 2}, world, [&] {
          if (rank == 1) throw Error(code, "of rank 1");
          transport->all_gather(nullptr, nullptr, std::vector<std::size_t>(3), MemorySpace::host, {});
        });
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_STREQ(error.what(), "of rank 1");
    }
  }
}

TEST(Allowed, OnlyWhatALayoutCausesIsARefusal) {
  const auto fails = [](ErrorCode code) { allowed([&] { throw Error(code, "why"); }); };
  EXPECT_THROW(fails(ErrorCode::refused), LayoutRefused);
  EXPECT_THROW(fails(ErrorCode::invalid_argument), LayoutRefused);
  try {
    fails(ErrorCode::lost_rank);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const LayoutRefused&) {
    ADD_FAILURE() << "a lost rank is no refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::lost_rank);
  }
}

}  // namespace
}  // namespace samebits::tools
