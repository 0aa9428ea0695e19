// Device memory through buffers of the host, on a pretended device that does everything as late as it may.
#include "transport/staged_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "support/late_device.hpp"

namespace samebits::transport {
namespace {

using Bytes = std::vector<unsigned char>;

// Messages between threads: sent when the host memory is read, and refused when another size was expected.
class Post {
 public:
  void exchange(int me, std::span<const Incoming> incoming, std::span<const Outgoing> outgoing) {
    std::unique_lock lock(mutex_);
    for (const Outgoing& out : outgoing) {
      const auto* const from = static_cast<const unsigned char*>(out.data);
      boxes_[{me, out.rank}].emplace_back(from, from + out.bytes);
      largest_ = std::max(largest_, out.bytes);
    }
    changed_.notify_all();
    for (const Incoming& in : incoming) {
      auto& box = boxes_[{in.rank, me}];
      changed_.wait(lock, [&] { return failed_ || !box.empty(); });
      if (failed_ || box.front().size() != in.bytes) {
        failed_ = true;
        changed_.notify_all();
        throw Error(ErrorCode::disagreement, "other bytes than expected");
      }
      std::copy(box.front().begin(), box.front().end(), static_cast<unsigned char*>(in.data));
      box.pop_front();
    }
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  std::size_t largest() const { return largest_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool failed_ = false;
  std::size_t largest_ = 0;
  std::map<std::pair<int, int>, std::deque<Bytes>> boxes_;
};

unsigned char byte_of(std::size_t round, std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<unsigned char>(round * 31 + from * 50 + to * 7 + i * 13 + i / 256);
}

constexpr std::size_t kBuffer = 1024;

// One rank on its own device.
class Rank {
 public:
  Rank(Post& post, int me, int ranks)
      : me_(me),
        ranks_(ranks),
        staged_(
            std::make_unique<test::LateLink>(device_, StagedExchange::kMarks),
            [&post, me](auto in, auto out) { post.exchange(me, in, out); }, kBuffer) {}

  // size(from, to) bytes from every rank to every other. With `gathers` everybody gets the same bytes. What
  // is sent is made late too, and spoilt on the queue afterwards.
  using Size = std::function<std::size_t(int from, int to)>;
  void check(std::size_t round, const Size& size, bool gathers = false) {
    const Queue queue{&queues_[round % queues_.size()]};
    std::vector<Bytes> sent(static_cast<std::size_t>(ranks_)), made(sent.size()), received(sent.size());
    const Settled settled{device_, queue};  // before these go, however this ends
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int r = 0; r < ranks_; ++r) {
      if (r == me_) continue;
      const auto at = static_cast<std::size_t>(r);
      Bytes& there = gathers ? sent[0] : sent[at];
      there.assign(size(me_, r), 0xBA);
      made[at].resize(there.size());
      for (std::size_t i = 0; i < there.size(); ++i)
        made[at][i] = byte_of(round, index(me_), to(r, gathers), i);
      received[at].assign(size(r, me_) + 1, 0xEE);
      outgoing.push_back({r, nullptr, there.size()});
      incoming.push_back({r, received[at].data(), size(r, me_)});
    }
    for (Outgoing& out : outgoing) {
      Bytes& there = gathers ? sent[0] : sent[index(out.rank)];
      out.data = there.data();
      device_.enqueue(queue, [&there, &from = made[index(out.rank)]] { there = from; });
    }
    staged_.exchange(incoming, outgoing, queue);
    for (Bytes& there : sent)
      device_.enqueue(queue, [&there] { std::fill(there.begin(), there.end(), 0xAB); });
    // Another exchange on another queue comes before anybody looks.
    if (round % 3 == 0) check(round + 1, [](int, int) { return std::size_t{700}; });
    device_.synchronize(queue);
    for (int r = 0; r < ranks_; ++r) {
      if (r == me_) continue;
      const Bytes& in = received[index(r)];
      for (std::size_t i = 0; i + 1 < in.size(); ++i) {
        if (in[i] != byte_of(round, index(r), to(me_, gathers), i))
          throw Error(ErrorCode::internal,
                      "byte " + std::to_string(i) + " of " + std::to_string(in.size() - 1));
      }
      if (in.back() != 0xEE) throw Error(ErrorCode::internal, "more bytes came");
    }
  }

 private:
  struct Settled {
    test::LateDevice& device;
    Queue queue;
    ~Settled() { device.synchronize(queue); }
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static std::size_t to(int rank, bool gathers) { return gathers ? 0 : index(rank); }

  int me_, ranks_;
  std::array<int, 2> queues_{};  // their addresses are the handles
  test::LateDevice device_;
  StagedExchange staged_;
};

// body(rank) on a thread a rank; the code of the failure that ended it, if one did.
template <class Body>
std::optional<ErrorCode> play(int ranks, const Body& body) {
  Post post;
  try {
    run_local(ranks, [&](int me, const std::shared_ptr<Transport>&) {
      try {
        Rank rank(post, me, ranks);
        body(rank, me);
      } catch (...) {
        post.fail();
        throw;
      }
    });
  } catch (const Error& error) {
    return error.code();
  }
  EXPECT_LE(post.largest(), kBuffer);
  return std::nullopt;
}

constexpr std::optional<ErrorCode> kAllWell;

TEST(StagedExchange, BringsEveryByteWhateverTheSizes) {
  for (const int ranks : {1, 2, 3, 5, 7}) {
    SCOPED_TRACE(ranks);
    const std::size_t peers = static_cast<std::size_t>(std::max(1, ranks - 1));
    const std::size_t piece = std::max<std::size_t>(256, kBuffer / peers / 256 * 256);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, piece - 1, piece, piece + 1, 2 * piece,
                                    3 * piece - 1, 6 * piece + 5}) {
      SCOPED_TRACE(bytes);
      EXPECT_EQ(kAllWell, play(ranks, [&](Rank& rank, int) {
                  for (std::size_t round = 0; round < 4; ++round) {
                    rank.check(10 * round, [&](int, int) { return bytes; });
                    rank.check(
                        10 * round + 3, [&](int, int) { return bytes; }, true);
                  }
                }));
    }
  }
}

TEST(StagedExchange, BringsUnevenMessages) {
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(kAllWell, play(ranks, [](Rank& rank, int) {
                for (std::size_t round = 0; round < 30; ++round) {
                  rank.check(round, [&](int from, int to) {
                    const auto seed = round * 7919 + static_cast<std::size_t>(from) * 104729 +
                                      static_cast<std::size_t>(to) * 1299709;
                    return seed % 5 == 0 ? 0 : seed % 6000;
                  });
                  // Some ranks have nothing for anybody.
                  rank.check(
                      round, [&](int from, int) { return static_cast<std::size_t>(from % 2) * 1500; }, true);
                }
              }));
  }
}

TEST(StagedExchange, RanksThatDisagreeFindOutAlsoAtWholePieces) {
  for (const std::size_t bytes : {std::size_t{10}, 2 * kBuffer, 3 * kBuffer + 1}) {
    for (const std::size_t more : {std::size_t{1}, kBuffer, std::size_t{256}}) {
      const auto ended = play(2, [&](Rank& rank, int me) {
        // Rank 1 expects more than rank 0 sends, and rank 0 goes on to another exchange.
        rank.check(1, [&](int from, int) { return bytes + (from == 0 && me == 1 ? more : 0); });
        rank.check(2, [](int, int) { return 2 * kBuffer; });
      });
      EXPECT_EQ(ended, ErrorCode::disagreement) << bytes << " and " << more << " more";
    }
  }
}

}  // namespace
}  // namespace samebits::transport
