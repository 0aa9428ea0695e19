// The NCCL transport over a stand-in library: what is loaded and refused, bytes, groups, the block on
// layouts, and failures, between threads. Ranks as processes are in tests/failure/transport.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "support/rank_block.hpp"
#include "transport/memory.hpp"
#include "transport/nccl_library.hpp"

namespace samebits::test {
namespace {

constexpr const char* kStandIn = SAMEBITS_NCCL_STAND_IN;
constexpr const char* kHalf = SAMEBITS_NCCL_HALF_STAND_IN;

// What the stand-in is told, for the length of a test.
class Nccl : public testing::Test {
 protected:
  Nccl() : folder_(std::filesystem::temp_directory_path() / ("samebits-nccl-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    tell("FOLDER", folder_);
  }
  ~Nccl() override {
    for (const std::string& name : told_) unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
  }

  void tell(const std::string& what, const std::string& value) {
    setenv(("SAMEBITS_STAND_IN_" + what).c_str(), value.c_str(), 1);
    told_.insert("SAMEBITS_STAND_IN_" + what);
  }
  const std::filesystem::path& folder() const { return folder_; }

  static NcclOptions options(std::shared_ptr<Transport> bootstrap = nullptr, double timeout = 20) {
    NcclOptions o;
    o.bootstrap = std::move(bootstrap);
    o.timeout_seconds = timeout;
    o.library = kStandIn;
    o.space = MemorySpace::host;
    return o;
  }

  // body(rank, transport) on every rank; the code and message of each rank's failure, none where it has none.
  using Failures = std::vector<std::pair<ErrorCode, std::string>>;
  template <class Body>
  static Failures play(int ranks, double timeout, const Body& body, bool with_bootstrap = true) {
    Failures failures(static_cast<std::size_t>(ranks), {ErrorCode::internal, ""});
    const auto bootstraps = local_transports(ranks);
    const std::string id = with_bootstrap ? "" : nccl_unique_id(kStandIn);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          NcclOptions o =
              options(with_bootstrap ? bootstraps[static_cast<std::size_t>(rank)] : nullptr, timeout);
          o.unique_id = id;
          if (!with_bootstrap) o.rank = rank, o.size = ranks;
          const auto transport = nccl_transport(o);
          body(rank, *transport);
        } catch (const Error& error) {
          failures[static_cast<std::size_t>(rank)] = {error.code(), error.what()};
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }
  static void expect_none(const Failures& failures) {
    for (const auto& [code, message] : failures) EXPECT_EQ(message, "");
  }
  static void expect_all(const Failures& failures, ErrorCode code, const std::string& words) {
    for (std::size_t r = 0; r < failures.size(); ++r) {
      EXPECT_EQ(failures[r].first, code) << r << ": " << failures[r].second;
      EXPECT_NE(failures[r].second.find(words), std::string::npos) << r << ": " << failures[r].second;
    }
  }

 private:
  std::filesystem::path folder_;
  std::set<std::string> told_;
};

template <class Body>
std::pair<ErrorCode, std::string> refusal(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::internal, "nothing was refused"};
}

using Loading = Nccl;

TEST_F(Loading, VersionsAsTheLibraryCodesThem) {
  using transport::nccl::version_words;
  EXPECT_EQ(version_words(2804), "2.8.4");
  EXPECT_EQ(version_words(21803), "2.18.3");
  EXPECT_EQ(version_words(22707), "2.27.7");
  EXPECT_EQ(version_words(30100), "3.1.0");
}

TEST_F(Loading, TheStandInIsFound) {
  const NcclStatus status = nccl_status(kStandIn);
  EXPECT_TRUE(status.found) << status.problem;
  EXPECT_EQ(status.version, "2.18.3");
  EXPECT_NE(status.library.find("stand_in"), std::string::npos);
  EXPECT_EQ(status.problem, "");
}

TEST_F(Loading, AbsentOldOrHalf) {
  const NcclStatus absent = nccl_status("/nowhere/libnccl.so.2");
  EXPECT_FALSE(absent.found);
  EXPECT_NE(absent.problem.find("no NCCL or RCCL could be loaded: /nowhere/libnccl.so.2"), std::string::npos)
      << absent.problem;
  const NcclStatus half = nccl_status(kHalf);
  EXPECT_FALSE(half.found);
  EXPECT_NE(half.problem.find("has no ncclGetUniqueId"), std::string::npos) << half.problem;
  for (const auto& [code, words] : {std::pair("2804", "2.8.4"), std::pair("21706", "2.17.6")}) {
    tell("VERSION", code);
    const NcclStatus old = nccl_status(kStandIn);
    EXPECT_FALSE(old.found);
    EXPECT_NE(old.problem.find(std::string("is version ") + words + ": 2.18.0 or later"), std::string::npos)
        << old.problem;
  }
  tell("VERSION", "21800");
  EXPECT_TRUE(nccl_status(kStandIn).found);
}

// Whatever this machine has: found and complete, or a reason.
TEST_F(Loading, TheMachinesOwn) {
  const NcclStatus status = nccl_status();
  if (status.found) {
    EXPECT_NE(status.library, "");
    EXPECT_NE(status.version, "");
  } else {
    EXPECT_NE(status.problem, "");
  }
}

TEST_F(Loading, ARankWithoutALibraryIsNamedByAll) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto bootstraps = local_transports(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions o = options(bootstraps[static_cast<std::size_t>(rank)]);
      if (rank == 1) o.library = "/nowhere/libnccl.so.2";
      const auto [code, message] = refusal([&] { nccl_transport(o); });
      EXPECT_EQ(code, ErrorCode::environment);
      const std::lock_guard lock(mutex);
      messages.push_back(message);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages)
    EXPECT_EQ(message.find("rank 1: no NCCL or RCCL could be loaded"), 0u) << message;
}

TEST_F(Loading, RefusesWhatCannotBe) {
  const auto expect = [](const NcclOptions& o, ErrorCode code, const std::string& words) {
    const auto [got, message] = refusal([&] { nccl_transport(o); });
    EXPECT_EQ(got, code) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  NcclOptions o = options();
  o.size = 2;
  expect(o, ErrorCode::invalid_argument, "need a bootstrap, a unique id or an id file");
  o.unique_id = "short";
  expect(o, ErrorCode::invalid_argument, "a unique id of 5 bytes");
  o.id_file = "also";
  expect(o, ErrorCode::invalid_argument, "one of them");
  o = options();
  o.rank = 1;
  expect(o, ErrorCode::invalid_argument, "rank 1 of 1 ranks");
  o = options();
  o.timeout_seconds = 0;
  expect(o, ErrorCode::invalid_argument, "must be more than 0");
  o = options();
  o.device = -1;
  expect(o, ErrorCode::invalid_argument, "device -1: devices are counted from 0");
  o = options();
  // A build's transports reach the memory of one kind of GPU at most.
  const bool hip = transport::can_reach(MemorySpace::hip);
  o.space = hip ? MemorySpace::cuda : MemorySpace::hip;
  expect(o, ErrorCode::environment, hip ? "this build has no CUDA" : "cannot reach the memory");
}

using Collectives = Nccl;

TEST_F(Collectives, MoveEveryKindOfMessage) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const bool with_bootstrap : {true, false}) {
      expect_none(play(
          ranks, 20,
          [&](int rank, Transport& transport) {
            EXPECT_EQ(transport.rank(), rank);
            EXPECT_EQ(transport.size(), ranks);
            EXPECT_TRUE(transport.reaches(MemorySpace::host));
            EXPECT_FALSE(transport.reaches(MemorySpace::cuda));
            for (std::size_t round = 0; round < 20; ++round) check_collectives(transport, round, 100);
            check_collectives(transport, 1, 100000);
          },
          with_bootstrap));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(Collectives, GroupsAreMadeOnceAndNest) {
  for (const bool with_bootstrap : {true, false}) {
    expect_none(play(
        6, 20,
        [](int rank, Transport& transport) {
          const std::vector<int> mine = rank % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3, 5};
          const auto group = transport.subgroup(mine);
          EXPECT_EQ(group->size(), 3);
          EXPECT_EQ(group->rank(), rank / 2);
          for (std::size_t round = 0; round < 5; ++round) {
            check_collectives(*group, round, 1000);
            check_collectives(transport, round, 50);
          }
          if (group->rank() < 2) check_collectives(*group->subgroup(std::vector<int>{0, 1}), 3, 100);
          // Asked for again nobody has to meet: no rank waits for another here.
          if (rank == 0) check_collectives(*transport.subgroup(std::vector<int>{0}), 1, 100);
          if (rank == 2) check_collectives(*transport.subgroup(std::vector<int>{2}), 1, 100);
          EXPECT_EQ(transport.subgroup(rank == 2 ? mine : std::vector<int>{0, 1, 2, 3, 4, 5})->size(),
                    rank == 2 ? 3 : 6);
          EXPECT_THROW(transport.subgroup(std::vector<int>{(rank + 1) % 6}), Error);
          check_collectives(transport, 9, 100);
        },
        with_bootstrap));
  }
}

TEST_F(Collectives, AnIdFileBringsRanksTogetherAndGoes) {
  const std::string file = folder() / "id";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      NcclOptions o = options();
      o.id_file = file;
      o.rank = rank;
      o.size = 3;
      const auto transport = nccl_transport(o);
      check_collectives(*transport, 2, 1000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::filesystem::is_empty(folder()));

  NcclOptions o = options(nullptr, 0.2);
  o.id_file = file;
  o.size = 2;
  o.rank = 1;
  EXPECT_EQ(refusal([&] { nccl_transport(o); }).first, ErrorCode::lost_rank);
  std::ofstream(file) << "left over";
  o.rank = 0;
  const auto [code, message] = refusal([&] { nccl_transport(o); });
  EXPECT_EQ(code, ErrorCode::bad_file);
  EXPECT_NE(message.find("belongs to one run"), std::string::npos) << message;
}

TEST_F(Collectives, TheBlockHasTheBitsOfLocalOnEveryLayout) {
  for (const char* name : {"tp2", "tp2+sp", "tp4", "cp2", "tp2+cp2", "tp2+cp2+sp", "tp8", "tp4+cp2+sp"}) {
    const Layout layout = parse_layout(name);
    const auto expected = local_results(layout);
    std::vector<std::vector<std::uint16_t>> got(expected.size());
    const auto bootstraps = local_transports(layout.ranks());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < got.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { got[rank] = rank_results(layout, nccl_transport(options(bootstraps[rank]))); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got, expected) << name;
  }
}

using Failing = Nccl;

// Of each rank's communicator the first two groups of calls are its own: it introduces itself.
constexpr const char* kThird = "5";

TEST_F(Failing, ACallThatFailsNamesItsRankAndEndsTheOthers) {
  tell("RANK", "1");
  tell("FAIL", kThird);
  const auto failures = play(3, 20, [](int, Transport& transport) {
    for (std::size_t round = 0; round < 10; ++round) check_collectives(transport, round, 1000);
  });
  expect_all(failures, ErrorCode::lost_rank, "unhandled system error (the stand-in was told to fail)");
}

TEST_F(Failing, AnErrorThatNcclFindsLaterEndsAll) {
  tell("RANK", "2");
  tell("ASYNC", kThird);
  const auto begun = std::chrono::steady_clock::now();
  const auto failures = play(4, 20, [](int, Transport& transport) {
    for (std::size_t round = 0; round < 10; ++round) check_collectives(transport, round, 1000);
  });
  expect_all(failures, ErrorCode::lost_rank, "rank 2 (");
  expect_all(failures, ErrorCode::lost_rank,
             "NCCL reports: remote process exited or there was a network error");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

TEST_F(Failing, AStallIsNoHang) {
  tell("RANK", "0");
  tell("STALL", kThird);
  for (const bool with_bootstrap : {true, false}) {
    const auto begun = std::chrono::steady_clock::now();
    const auto failures = play(
        3, 0.5,
        [](int, Transport& transport) {
          std::string first;
          try {
            for (std::size_t round = 0; round < 10; ++round) check_collectives(transport, round, 1000);
          } catch (const Error& error) {
            first = error.what();
          }
          // Whatever is called next says the same, without waiting.
          const auto again = refusal([&] { transport.subgroup(std::vector<int>{0, 1, 2}); });
          EXPECT_EQ(again.second, first);
          const std::vector<std::size_t> nothing(3);
          transport.all_gather(nullptr, nullptr, nothing, MemorySpace::host, {});
        },
        with_bootstrap);
    expect_all(failures, ErrorCode::lost_rank, "has waited for");
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(8));
  }
}

TEST_F(Failing, ARankThatComputesForLessThanTheTimeoutIsNotLost) {
  expect_none(play(3, 1.5, [](int rank, Transport& transport) {
    check_collectives(transport, 1, 100);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(700));
    check_collectives(transport, 2, 100);
  }));
}

TEST_F(Failing, ARankThatGivesUpSaysWhy) {
  const auto begun = std::chrono::steady_clock::now();
  const auto failures = play(4, 20, [](int rank, Transport& transport) {
    check_collectives(transport, 1, 100);
    const auto group = transport.subgroup(rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
    if (rank == 3) transport.abort("the disk of this rank is full");
    check_collectives(*group, 2, 100);
    check_collectives(transport, 2, 100);
  });
  expect_all(failures, ErrorCode::lost_rank, "gave up: the disk of this rank is full");
  EXPECT_NE(failures[0].second.find("rank 3 ("), std::string::npos) << failures[0].second;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

TEST_F(Failing, ARankThatDoesNotJoin) {
  tell("RANK", "1");
  tell("JOIN", "fail");
  const auto failures = play(3, 20, [](int, Transport&) {});
  expect_all(failures, ErrorCode::lost_rank, "joining an NCCL group: unhandled system error");
  tell("JOIN", "stall");
  const auto begun = std::chrono::steady_clock::now();
  expect_all(play(3, 0.5, [](int, Transport&) {}), ErrorCode::lost_rank, "did not join within 0.5 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(8));
}

TEST_F(Failing, OtherByteCountsAreSeenByTheStandIn) {
  const auto failures = play(2, 5, [](int rank, Transport& transport) {
    const std::vector<std::size_t> bytes(2, rank == 0 ? std::size_t{4} : std::size_t{8});
    std::vector<unsigned char> send(8), receive(16);
    transport.all_gather(send.data(), receive.data(), bytes, MemorySpace::host, {});
  });
  EXPECT_TRUE(failures[0].first == ErrorCode::internal || failures[1].first == ErrorCode::internal);
  EXPECT_NE(failures[0].second, "");
  EXPECT_NE(failures[1].second, "");
}

TEST_F(Failing, OtherMemoryIsRefused) {
  const auto transport = nccl_transport(options());
  const std::vector<std::size_t> bytes = {1};
  EXPECT_THROW(transport->all_gather(nullptr, nullptr, bytes, MemorySpace::cuda, {}), Error);
}

}  // namespace
}  // namespace samebits::test
