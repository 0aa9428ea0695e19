// What the ranks of a world tell each other: texts, failures, exit codes. Threads stand for the processes.
#include "world/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>

namespace samebits::tools {
namespace {

constexpr int kRanks = 3;

// body(world) on every rank; what it returns, by rank.
std::array<int, kRanks> play(const std::function<int(const World&)>& body) {
  std::array<int, kRanks> codes{};
  run_local(kRanks, [&](int rank, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport));
    codes[static_cast<std::size_t>(rank)] = body(world);
  });
  return codes;
}

TEST(World, GathersTextsOfAnyLength) {
  play([](const World& world) {
    const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 1000, 'x'); };
    const std::vector<std::string> all = world.gather(text_of(world.rank()));
    EXPECT_EQ(all.size(), kRanks);
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)], text_of(rank));
    return 0;
  });
  EXPECT_EQ(World().gather("alone"), std::vector<std::string>{"alone"});
}

TEST(World, CountsTheRanksOfThisMachine) {
  play([](const World& world) {
    EXPECT_EQ(world.ranks_here(2), 2);
    EXPECT_EQ(world.ranks_here(kRanks), kRanks);
    EXPECT_EQ(world.rank_here(), world.rank());
    return 0;
  });
}

TEST(World, AFailureOfOneIsAFailureOfAll) {
  play([](const World& world) {
    try {
      world.together([&] {
        if (world.rank() == 1) throw Error(ErrorCode::bad_file, "x: it is empty");
        if (world.rank() == 2) throw std::bad_alloc();
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const KnownToAll& error) {
      const char* const messages[kRanks] = {"rank 1: x: it is empty", "x: it is empty", "out of memory"};
      EXPECT_EQ(std::string(error.what()).find(messages[world.rank()]), 0u) << error.what();
      EXPECT_EQ(error.code(), world.rank() == 2 ? ErrorCode::out_of_memory : ErrorCode::bad_file);
    }
    world.together([] {});  // and the world goes on
    return 0;
  });
}

TEST(World, TheExitCodeIsThatOfRank0) {
  const auto codes =
      play([](const World& world) { return world.run([&] { return world.first() ? 1 : 0; }); });
  EXPECT_EQ(codes, (std::array<int, kRanks>{1, 1, 1}));
}

TEST(World, RanksThatWaitHearWhichOneFailed) {
  testing::internal::CaptureStderr();
  const auto codes = play([](const World& world) {
    return world.run([&]() -> int {
      if (world.rank() == 2) throw Error(ErrorCode::refused, "not this");
      world.gather("waiting");
      return 0;
    });
  });
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(codes, (std::array<int, kRanks>{3, 3, 2}));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), kRanks) << lines;
  EXPECT_NE(lines.find("samebits: rank 2 failed: not this\n"), std::string::npos) << lines;
}

TEST(World, WhatAllKnowIsToldToNobody) {
  testing::internal::CaptureStderr();
  const auto codes = play([](const World& world) {
    return world.run([&]() -> int {
      world.together([&] {
        if (world.first()) throw Error(ErrorCode::bad_file, "broken");
      });
      return 0;
    });
  });
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(codes, (std::array<int, kRanks>{2, 2, 2}));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), kRanks) << lines;
}

}  // namespace
}  // namespace samebits::tools
