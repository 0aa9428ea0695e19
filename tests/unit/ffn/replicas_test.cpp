// A plan that compares what its ranks hold copies of: what differs is named on every rank, and the next call
// goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "support/message_of.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

constexpr std::int64_t kTokens = 12;
constexpr Shape kShape{24, 96};

// What one rank is given; the same on all of them, before a test spoils it.
struct Given {
  Given() : random(5), in(random_inputs(random, Values::normal, kShape, kTokens)) {}
  Random random;
  BlockInputs in;
  TokenShards shards = TokenShards::zigzag(kTokens, 2), backward_shards = shards;
  std::int64_t counted = -1;
  bool wants_y = true, wants_dx = true;
  bool unread_junk = false;  // weights that the call does not read point nowhere
};
using Spoil = std::function<void(int rank, Given&)>;

// Forward and backward of tp2+cp2 with spoiled copies, and both once more with right ones. The messages that
// ranks were given, each once; a rank without one gives "".
std::vector<std::string> messages(const Spoil& spoil, const char* layout = "tp2+cp2",
                                  DownCut down = DownCut::automatic) {
  std::mutex mutex;
  std::vector<std::string> all;
  run_local(4, [&](int rank, std::shared_ptr<Transport> transport) {
    PlanOptions options = SmallPlan::make_options(kTokens, "f32-tree-v1", kShape);
    options.layout = parse_layout(layout);
    options.max_rank_tokens = kTokens;
    options.transport = std::move(transport);
    options.down = down;
    options.check_replicas = true;
    Plan plan(options);
    const auto call = [&](const Given& given) {
      const std::int64_t slices = options.layout.sequence_parallel ? 2 : 1,
                         rows = given.shards.count(rank / 2) / slices, hidden = kShape.hidden;
      const auto operand = [](const std::vector<std::uint16_t>& data, std::int64_t r, std::int64_t c) {
        return host_view(static_cast<const void*>(data.data()), r, c);
      };
      const std::int64_t held = plan.shard().intermediate.length();
      std::vector<std::uint16_t> y(static_cast<std::size_t>(rows * hidden)), dx(y.size()),
          d_gate(static_cast<std::size_t>(held * hidden)), d_up(d_gate.size()), d_down(d_gate.size());
      ForwardArgs forward;
      forward.x = operand(given.in.x, rows, hidden);
      forward.y = host_view(y.data(), rows, hidden);
      forward.weights = plan.slice(operand(given.in.gate, kShape.intermediate, hidden),
                                   operand(given.in.up, kShape.intermediate, hidden),
                                   operand(given.in.down, hidden, kShape.intermediate));
      forward.shards = &given.shards;
      const ConstView junk = operand({}, 1 << 30, 1 << 30);
      if (given.unread_junk && plan.down() == DownCut::rows) forward.weights.down = junk;
      if (!given.wants_y) forward.y = {};
      plan.forward(forward);
      BackwardArgs backward;
      backward.x = forward.x;
      backward.dy = operand(given.in.dy, rows, hidden);
      backward.weights = plan.slice(operand(given.in.gate, kShape.intermediate, hidden),
                                    operand(given.in.up, kShape.intermediate, hidden),
                                    operand(given.in.down, hidden, kShape.intermediate));
      if (given.unread_junk && plan.down() == DownCut::rows)
        backward.weights.gate = backward.weights.up = junk;
      backward.shards = &given.backward_shards;
      if (given.wants_dx) backward.dx = host_view(dx.data(), rows, hidden);
      backward.d_gate = host_view(d_gate.data(), held, hidden);
      backward.d_up = host_view(d_up.data(), held, hidden);
      backward.d_down = host_view(d_down.data(), hidden, held);
      backward.counted = given.counted;
      plan.backward(backward);
    };
    Given given;
    spoil(rank, given);
    std::string message;
    try {
      call(given);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::disagreement) << error.what();
      message = error.what();
    }
    {
      const std::lock_guard lock(mutex);
      if (std::find(all.begin(), all.end(), message) == all.end()) all.push_back(message);
    }
    call(Given());
  });
  return all;
}

// All ranks were told the same, which begins so.
void expect_all_hear(const std::vector<std::string>& messages, const std::string& words) {
  ASSERT_EQ(messages.size(), 1u);
  expect_says(messages[0], words);
}

TEST(Replicas, EqualCopiesPass) {
  for (const char* const layout : {"tp2+cp2", "tp2+cp2+sp"})
    EXPECT_EQ(messages([](int, Given&) {}, layout), std::vector<std::string>{""});
}

TEST(Replicas, AWeightThatDiffersBetweenContextRanks) {
  const auto spoil = [](int rank, Given& given) {
    if (rank == 3) given.in.up.back() ^= 1;  // in the shard of tensor rank 1
  };
  expect_all_hear(messages(spoil), "rank 3 has up of tensor rank 1 48 x 24, digest ");
  expect_all_hear(messages(spoil), ", rank 1 has 48 x 24, digest ");
  expect_all_hear(messages(spoil, "tp2+cp2", DownCut::rows),
                  "rank 3 has up of tensor rank 1 48 x 24, digest ");
}

TEST(Replicas, WeightsThatACallDoesNotReadAreNot) {
  const auto junk = [](int rank, Given& given) { given.unread_junk = rank == 2; };
  EXPECT_EQ(messages(junk, "tp2+cp2", DownCut::rows), std::vector<std::string>{""});
}

// Ranks that want different results would wait for each other.
TEST(Replicas, WhatARankWants) {
  const auto y = [](int rank, Given& given) { given.wants_y = rank != 1; };
  expect_all_hear(messages(y), "rank 1 has tokens 0-3 9-12 | 3-9, no y");
  const auto dx = [](int rank, Given& given) { given.wants_dx = rank != 1; };
  expect_all_hear(messages(dx), "rank 1 has tokens 0-3 9-12 | 3-9, no dx, gradients of 12 tokens");
}

// Another tensor rank's shard is none of this one's.
TEST(Replicas, WhatARankDoesNotHoldIsNotCompared) {
  const auto spoil = [](int rank, Given& given) {
    if (rank % 2 == 0) given.in.up.back() ^= 1;
  };
  EXPECT_EQ(messages(spoil), std::vector<std::string>{""});
}

TEST(Replicas, TokensThatDifferBetweenTensorRanks) {
  const auto x = [](int rank, Given& given) {
    if (rank == 3) given.in.x[5] ^= 0x8000;
  };
  expect_all_hear(messages(x), "rank 3 has x of context rank 1 6 x 24, digest ");
  EXPECT_EQ(messages(x, "tp2+cp2+sp"), std::vector<std::string>{""});  // of nobody else
  const auto dy = [](int rank, Given& given) {
    if (rank == 1) given.in.dy[0] ^= 1;
  };
  expect_all_hear(messages(dy), "rank 1 has dy of context rank 0 6 x 24, digest ");
}

// As many tokens, in another order: the same bytes would travel.
TEST(Replicas, AnotherOrderOfTheTokens) {
  const auto order = [](int rank, Given& given) {
    if (rank == 2) given.shards = TokenShards::contiguous(kTokens, 2);
  };
  expect_all_hear(messages(order), "rank 2 has tokens 0-6 | 6-12, y (digest ");
  expect_all_hear(messages(order), ", rank 0 has 0-3 9-12 | 3-9, y (digest ");
  const auto backward = [](int rank, Given& given) {
    if (rank == 3) given.backward_shards = TokenShards::contiguous(kTokens, 2);
  };
  expect_all_hear(messages(backward), "rank 3 has tokens 0-6 | 6-12, dx, gradients of 12 tokens (digest ");
  const auto alike = [](int rank, Given& given) { given.counted = rank == 1 ? kTokens : -1; };
  EXPECT_EQ(messages(alike), std::vector<std::string>{""});
  const auto counted = [](int rank, Given& given) { given.counted = rank == 1 ? 8 : 9; };
  expect_all_hear(messages(counted), "rank 1 has tokens 0-3 9-12 | 3-9, dx, gradients of 8 tokens");
}

}  // namespace
}  // namespace samebits::test
