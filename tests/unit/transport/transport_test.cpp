// Bytes arrive where they should, over threads and over callbacks; failures reach everybody.
#include "samebits/transport.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "samebits/error.hpp"
#include "support/callback_world.hpp"

namespace samebits {
namespace {

using World = void (*)(int, const std::function<void(int, std::shared_ptr<Transport>)>&);

class EveryTransport : public testing::TestWithParam<World> {};

// Byte i of the message from one rank to another.
unsigned char byte_of(std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<unsigned char>(from * 50 + to * 7 + i);
}

void check_collectives(Transport& transport) {
  const auto ranks = static_cast<std::size_t>(transport.size()),
             me = static_cast<std::size_t>(transport.rank());
  std::vector<std::size_t> bytes(ranks);  // uneven, one of them zero
  for (std::size_t r = 0; r < ranks; ++r) bytes[r] = r * 3;
  std::vector<unsigned char> send(bytes[me] + 1),
      receive(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) + 1, 0xEE);
  for (std::size_t i = 0; i < bytes[me]; ++i) send[i] = byte_of(me, 0, i);
  transport.all_gather(send.data(), receive.data(), bytes, MemorySpace::host, {});
  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < bytes[r]; ++i) ASSERT_EQ(receive[at++], byte_of(r, 0, i));
  }
  ASSERT_EQ(receive[at], 0xEE);

  std::vector<std::size_t> sends(ranks), receives(ranks);
  for (std::size_t r = 0; r < ranks; ++r) sends[r] = me + 2 * r, receives[r] = r + 2 * me;
  std::vector<unsigned char> out,
      in(std::accumulate(receives.begin(), receives.end(), std::size_t{0}) + 1, 0xEE);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < sends[r]; ++i) out.push_back(byte_of(me, r, i));
  }
  out.push_back(0);
  transport.all_to_all(out.data(), sends, in.data(), receives, MemorySpace::host, {});
  at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < receives[r]; ++i) ASSERT_EQ(in[at++], byte_of(r, me, i));
  }
  ASSERT_EQ(in[at], 0xEE);
}

TEST_P(EveryTransport, MovesUnevenBytes) {
  for (const int ranks : {1, 2, 3, 8}) {
    GetParam()(ranks, [](int, const std::shared_ptr<Transport>& transport) {
      for (int repeat = 0; repeat < 20; ++repeat) check_collectives(*transport);
    });
  }
}

TEST_P(EveryTransport, SubgroupsWorkAtOnceAndNest) {
  GetParam()(6, [](int rank, const std::shared_ptr<Transport>& transport) {
    const std::vector<int> mine = rank % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3, 5};
    const auto group = transport->subgroup(mine);
    ASSERT_EQ(group->size(), 3);
    ASSERT_EQ(group->rank(), rank / 2);
    for (int repeat = 0; repeat < 10; ++repeat) check_collectives(*group);
    if (group->rank() < 2) check_collectives(*group->subgroup(std::vector<int>{0, 1}));
    check_collectives(*transport);
  });
}

TEST_P(EveryTransport, ARankThatFailsEndsTheOthersWait) {
  std::atomic<int> ended = 0;
  try {
    GetParam()(4, [&](int rank, const std::shared_ptr<Transport>& transport) {
      if (rank == 2) throw Error(ErrorCode::bad_file, "rank two has no file");
      try {
        check_collectives(*transport);
      } catch (...) {
        ++ended;
        throw;
      }
    });
    FAIL() << "no failure was seen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_STREQ(error.what(), "rank two has no file");
  }
  EXPECT_EQ(ended, 3);
}

TEST_P(EveryTransport, RefusesAGroupWithoutTheCaller) {
  GetParam()(2, [](int rank, const std::shared_ptr<Transport>& transport) {
    EXPECT_THROW(transport->subgroup(std::vector<int>{1 - rank}), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryTransport, testing::Values(&run_local, &test::run_callback_world));

TEST(LocalTransport, RanksThatDisagreeAboutBytesAllFail) {
  EXPECT_THROW(
      run_local(2,
                [](int rank, const std::shared_ptr<Transport>& transport) {
                  const std::vector<std::size_t> bytes = {4, rank == 0 ? std::size_t{4} : std::size_t{8}};
                  std::vector<unsigned char> send(8), receive(16);
                  transport->all_gather(send.data(), receive.data(), bytes, MemorySpace::host, {});
                }),
      Error);
}

TEST(LocalTransport, ARankThatEndsEarlyEndsTheOthersWait) {
  try {
    run_local(3, [](int rank, const std::shared_ptr<Transport>& transport) {
      if (rank != 1) check_collectives(*transport);
    });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::lost_rank);
  }
}

TEST(LocalTransport, AnAbortNamesItsReason) {
  const auto transports = local_transports(2);
  transports[1]->abort("the disk is full");
  const std::vector<std::size_t> bytes = {0, 0};
  try {
    transports[0]->all_gather(nullptr, nullptr, bytes, MemorySpace::host, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::lost_rank);
    EXPECT_STREQ(error.what(), "the disk is full");
  }
}

TEST(CallbackTransport, ChecksWhatItIsGiven) {
  EXPECT_THROW(callback_transport(0, 1, {}), Error);
  TransportCallbacks callbacks;
  callbacks.all_gather = [](auto&&...) {};
  callbacks.all_to_all = [](auto&&...) {};
  EXPECT_THROW(callback_transport(2, 2, callbacks), Error);
  const auto transport = callback_transport(0, 2, callbacks);
  EXPECT_TRUE(transport->reaches(MemorySpace::host));
  EXPECT_FALSE(transport->reaches(MemorySpace::cuda));
  const std::vector<std::size_t> one = {1};
  EXPECT_THROW(transport->all_gather(nullptr, nullptr, one, MemorySpace::host, {}), Error);
}

}  // namespace
}  // namespace samebits
