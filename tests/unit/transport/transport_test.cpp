// Bytes arrive where they should, over threads and over callbacks; failures reach everybody.
#include "samebits/transport.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

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

// Each rank writes its number into its place of every memory, its own too, and after an exchange all are
// there.
void check_window(Transport& transport, int base) {
  const auto ranks = static_cast<std::size_t>(transport.size()),
             me = static_cast<std::size_t>(transport.rank());
  const auto memory = std::make_shared<std::vector<int>>(ranks, -1);
  const std::shared_ptr<void> opened(memory, memory->data());
  const auto window = transport.open_window(opened, MemorySpace::host);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->of(transport.rank()), memory->data());
  for (int to = 0; to < transport.size(); ++to)
    static_cast<int*>(window->of(to))[me] = base + transport.rank() * 10 + to;
  const std::vector<std::size_t> nothing(ranks, 0);
  transport.all_gather(nullptr, nullptr, nothing, MemorySpace::host, {});
  for (int from = 0; from < transport.size(); ++from)
    EXPECT_EQ((*memory)[static_cast<std::size_t>(from)], base + from * 10 + transport.rank());
}

TEST(LocalTransport, RanksWriteIntoEachOthersWindows) {
  for (const int ranks : {1, 2, 5}) {
    run_local(ranks, [](int, const std::shared_ptr<Transport>& transport) {
      for (int repeat = 0; repeat < 20; ++repeat) check_window(*transport, repeat * 1000);
    });
  }
}

TEST(LocalTransport, SubgroupsHaveWindowsOfTheirOwn) {
  run_local(6, [](int rank, const std::shared_ptr<Transport>& transport) {
    const std::vector<int> mine = rank % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3, 5};
    const auto group = transport->subgroup(mine);
    for (int repeat = 0; repeat < 10; ++repeat) check_window(*group, rank % 2 * 100000 + repeat * 1000);
    check_window(*transport, 7);
  });
}

// It goes when the last window does, so that whoever holds one may write.
TEST(LocalTransport, WhatAWindowOpensOutlivesItsRank) {
  const auto transports = local_transports(2);
  std::weak_ptr<int> memory;
  std::shared_ptr<Window> others;
  std::thread first([&] {
    const auto mine = std::make_shared<int>(1);
    memory = mine;
    transports[0]->open_window(mine, MemorySpace::host);
  });
  others = transports[1]->open_window(std::make_shared<int>(2), MemorySpace::host);
  first.join();
  ASSERT_FALSE(memory.expired());
  EXPECT_EQ(*static_cast<int*>(others->of(0)), 1);
  *static_cast<int*>(others->of(0)) = 3;
  EXPECT_EQ(*memory.lock(), 3);
  others = nullptr;
  EXPECT_TRUE(memory.expired());
}

TEST(LocalTransport, ARankThatIsLostOpensNoWindow) {
  EXPECT_THROW(run_local(3,
                         [](int rank, const std::shared_ptr<Transport>& transport) {
                           if (rank == 1) throw Error(ErrorCode::bad_file, "rank one has no file");
                           transport->open_window(std::make_shared<int>(), MemorySpace::host);
                           ADD_FAILURE() << "a window without rank 1";
                         }),
               Error);
}

// What forwards sees all that is exchanged: nothing passes it through a window.
TEST(ForwardingTransports, OpenNoWindows) {
  run_local(2, [](int, const std::shared_ptr<Transport>& transport) {
    const auto counting = counting_transport(transport, std::make_shared<Moved>());
    EXPECT_EQ(counting->open_window(std::make_shared<int>(), MemorySpace::host), nullptr);
    const std::vector<int> all = {0, 1};
    EXPECT_EQ(counting->subgroup(all)->open_window(std::make_shared<int>(), MemorySpace::host), nullptr);
  });
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
