// Every rank is played, and the failure that is thrown is the cause, not its echo on the other ranks.
#include "block/run_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "samebits/error.hpp"

namespace samebits::tools {
namespace {

TEST(RunRanks, PlaysEveryRank) {
  for (const Layout layout : {Layout{1, 1, false}, {3, 2, true}}) {
    std::atomic<int> sum{0};
    run_ranks(layout, [&](int rank, std::shared_ptr<Transport> transport) {
      EXPECT_EQ(transport == nullptr, layout.ranks() == 1);
      sum += rank + 1;
    });
    EXPECT_EQ(sum, layout.ranks() * (layout.ranks() + 1) / 2);
  }
}

// Rank 1 tells the others before it ends, as a plan does; they fail while it still unwinds.
template <class Thrown>
void fail_on_rank_1(const Thrown& thrown) {
  run_ranks({4, 1, false}, [&](int rank, std::shared_ptr<Transport> transport) {
    if (rank == 1) {
      transport->abort("rank 1 failed");
      throw thrown;
    }
    const std::size_t bytes[4] = {};
    transport->all_gather(nullptr, nullptr, bytes, MemorySpace::host, {});
  });
}

TEST(RunRanks, ThrowsTheCause) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    EXPECT_THROW(fail_on_rank_1(std::bad_alloc()), std::bad_alloc);
    try {
      fail_on_rank_1(Error(ErrorCode::refused, "not this layout"));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::refused);
      EXPECT_STREQ(error.what(), "not this layout");
    }
  }
}

}  // namespace
}  // namespace samebits::tools
