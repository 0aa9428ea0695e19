// The bytes that a call is said to move are those that it moves, on every rank, forward and backward apart.
#include "samebits/traffic.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "samebits/error.hpp"
#include "support/few_nodes_engine.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

template <class T>
T pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

struct Bytes {
  std::size_t sent = 0, received = 0;
  std::int64_t collectives = 0;
  bool operator==(const Bytes&) const = default;
};
Bytes total(const std::vector<Collective>& collectives) {
  Bytes bytes;
  for (const Collective& c : collectives) {
    bytes.sent += c.sent;
    bytes.received += c.received;
    bytes.collectives += c.times;
  }
  return bytes;
}
Bytes since(const Moved& now, const Moved& before) {
  return {now.sent - before.sent, now.received - before.received,
          static_cast<std::int64_t>(now.collectives - before.collectives)};
}

TokenShards random_shards(Random& random, std::int64_t tokens, int cp) {
  switch (uniform(random, 0, 2)) {
    case 0:
      return TokenShards::contiguous(tokens, cp);
    case 1:
      return TokenShards::zigzag(tokens, cp);
    default:
      break;
  }
  // Uneven, some ranks without tokens; cuts at multiples of 32 half of the time.
  const std::int64_t step = uniform(random, 0, 1) == 0 ? 32 : 1;
  std::vector<std::int64_t> cuts{0, tokens};
  for (int i = 1; i < cp; ++i) cuts.push_back(uniform(random, 0, tokens / step) * step);
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::vector<Interval>> of_rank(static_cast<std::size_t>(cp));
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    if (cuts[r] < cuts[r + 1]) of_rank[r] = {{cuts[r], cuts[r + 1]}};
  }
  return TokenShards::of(of_rank);
}

// A call of one rank on zeros: what is moved depends on no value.
void call(const PlanOptions& options, const TokenShards& shards, DType gradients, int rank,
          std::shared_ptr<Transport> transport, Bytes& forward, Bytes& backward) {
  const auto moved = std::make_shared<Moved>();
  PlanOptions mine = options;
  mine.transport = counting_transport(std::move(transport), moved);
  Plan plan(mine);
  const auto [hidden, intermediate] = options.shape;
  const std::int64_t held = shards.count(rank / options.layout.tp);
  const bool slices = options.layout.tp > 1 && options.layout.sequence_parallel;
  const std::int64_t rows =
      slices ? even_slice(held, options.layout.tp, rank % options.layout.tp).length() : held;
  std::vector<std::vector<std::uint16_t>> memory;
  const auto matrix = [&](std::int64_t r, std::int64_t c, std::int64_t words = 1) {
    memory.emplace_back(static_cast<std::size_t>(r * c * words) + 1);
    return host_view(memory.back().data(), r, c);
  };
  const auto gradient = [&](std::int64_t r, std::int64_t c) {
    View view = matrix(r, c, gradients == DType::f32 ? 2 : 1);
    view.dtype = gradients;
    return view;
  };
  const Weights weights =
      plan.slice(matrix(intermediate, hidden), matrix(intermediate, hidden), matrix(hidden, intermediate));
  Moved before = *moved;
  ForwardArgs f;
  f.x = matrix(rows, hidden);
  f.y = matrix(rows, hidden);
  f.weights = weights;
  f.shards = &shards;
  plan.forward(f);
  forward = since(*moved, before);
  before = *moved;
  const std::int64_t shard = plan.shard().intermediate.length();
  BackwardArgs b;
  b.x = f.x;
  b.dy = matrix(rows, hidden);
  b.weights = weights;
  b.dx = matrix(rows, hidden);
  b.d_gate = gradient(shard, hidden);
  b.d_up = gradient(shard, hidden);
  b.d_down = gradient(hidden, shard);
  b.shards = &shards;
  plan.backward(b);
  backward = since(*moved, before);
}

TEST(Traffic, IsWhatATransportCounts) {
  int refused = 0, exchanged = 0, two_levels = 0, by_rows = 0, chunked = 0;
  for (int round = 0; round < 300; ++round) {
    Random random(900 + round);
    PlanOptions options;
    options.contract =
        parse_contract(pick<std::string>(random, {"bf16-tree-v1", "f32-tree-v1", "hf-sm90-v1",
                                                  "f32-tree-v1,T=max:32", "bf16-tree-v1,I=max:7"}));
    options.shape = {uniform(random, 1, 90), uniform(random, 1, 300)};
    options.layout = parse_layout(
        pick<std::string>(random, {"tp2", "tp2+sp", "tp3", "tp4+sp", "cp2", "cp3", "cp4", "cp4", "cp6", "cp6",
                                   "tp2+cp4", "tp2+cp2", "tp2+cp2+sp", "tp3+cp2", "tp1"}));
    options.ranks_per_node = static_cast<int>(pick<std::int64_t>(random, {0, 2, 3, 4}));
    options.down = pick<DownCut>(random, {DownCut::automatic, DownCut::columns, DownCut::rows});
    options.gradient_reduction = pick<GradientReduction>(
        random,
        {GradientReduction::automatic, GradientReduction::gather_tokens, GradientReduction::exchange_covers});
    options.cover_exchange = pick<CoverExchange>(
        random, {CoverExchange::automatic, CoverExchange::one_shot, CoverExchange::slice_owner});
    options.one_shot_bytes = static_cast<std::size_t>(pick<std::int64_t>(random, {0, 20000, 1 << 20}));
    options.overlap = pick<Overlap>(random, {Overlap::automatic, Overlap::automatic, Overlap::off});
    if (uniform(random, 0, 1) == 0)
      options.chunks = {uniform(random, 1, 5), uniform(random, 1, 20), uniform(random, 1, 9)};
    if (uniform(random, 0, 1) == 0)
      options.gradient_bytes = static_cast<std::size_t>(uniform(random, 1000, 200000));
    options.max_tokens = uniform(random, 0, 150);
    options.max_rank_tokens = options.max_tokens;
    const DType gradients = pick<DType>(random, {DType::bf16, DType::f32});
    const TokenShards shards = random_shards(random, options.max_tokens, options.layout.cp);
    const auto ranks = static_cast<std::size_t>(options.layout.ranks());
    std::vector<Bytes> forward(ranks), backward(ranks);
    bool ran = true;
    try {
      run_local(options.layout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
        PlanOptions mine = options;
        mine.engine = make_cpu_engine({.threads = 1});
        call(mine, shards, gradients, rank, std::move(transport), forward[static_cast<std::size_t>(rank)],
             backward[static_cast<std::size_t>(rank)]);
      });
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::refused) << error.what();
      ran = false;
      ++refused;
    }
    if (!ran) {
      bool refused_too = false;
      for (int rank = 0; rank < options.layout.ranks() && !refused_too; ++rank) {
        try {
          traffic_of(options, shards, rank, gradients);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::refused) << error.what();
          refused_too = true;
        }
      }
      ASSERT_TRUE(refused_too) << "round " << round;
      continue;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const CallTraffic traffic = traffic_of(options, shards, static_cast<int>(rank), gradients);
      const std::string what = fmt::format(
          "round {}, {}, {}, {}x{}, {} tokens, rank {}", round, canonical(options.contract),
          name_of(options.layout), options.shape.hidden, options.shape.intermediate, shards.tokens, rank);
      const Bytes f = total(traffic.forward), b = total(traffic.backward);
      ASSERT_EQ(f.sent, forward[rank].sent) << what;
      ASSERT_EQ(f.received, forward[rank].received) << what;
      ASSERT_EQ(f.collectives, forward[rank].collectives) << what;
      ASSERT_EQ(b.sent, backward[rank].sent) << what;
      ASSERT_EQ(b.received, backward[rank].received) << what;
      ASSERT_EQ(b.collectives, backward[rank].collectives) << what;
      const auto has = [](const std::vector<Collective>& all, const char* text) {
        return std::any_of(all.begin(), all.end(),
                           [&](const Collective& c) { return c.what.find(text) != std::string::npos; });
      };
      exchanged += has(traffic.backward, "covers of");
      two_levels += has(traffic.backward, "covers of gate's gradient, between machines");
      by_rows += has(traffic.forward, "act");
      chunked += std::any_of(traffic.forward.begin(), traffic.forward.end(),
                             [](const Collective& c) { return c.times > 1; });
    }
  }
  // Every way was taken.
  EXPECT_GT(refused, 10);
  EXPECT_GT(exchanged, 10);
  EXPECT_GT(two_levels, 5);
  EXPECT_GT(by_rows, 10);
  EXPECT_GT(chunked, 10);
}

// What two levels are for: fewer bytes leave a machine. Six context ranks on two of them, one leaf a rank.
TEST(Traffic, TwoLevelsSendLessBetweenMachines) {
  PlanOptions options;
  options.contract = parse_contract("f32-tree-v1,T=block:8");
  options.shape = {32, 48};
  options.layout = parse_layout("cp8");
  options.max_tokens = 64;
  const TokenShards shards = TokenShards::contiguous(64, 8);
  for (const GradientReduction reduction :
       {GradientReduction::gather_tokens, GradientReduction::exchange_covers}) {
    options.gradient_reduction = reduction;
    const auto between = [&](int ranks_per_node) {
      options.ranks_per_node = ranks_per_node;
      std::size_t bytes = 0;
      for (int rank = 0; rank < 8; ++rank) {
        for (const Collective& c : traffic_of(options, shards, rank).backward) {
          // In one level four of the seven others are on the other machine.
          bytes += ranks_per_node == 0 ? c.sent / 7 * 4 : c.between_machines ? c.sent : 0;
        }
      }
      return bytes;
    };
    // Four leaves join to one node, and what is gathered crosses once: a quarter.
    EXPECT_NEAR(static_cast<double>(between(4)) / static_cast<double>(between(0)), 0.25, 0.01);
  }
}

// Eight context ranks, a leaf each: covers of eight nodes, which is cheaper here than to gather the tokens.
std::vector<Collective> eight_nodes(std::shared_ptr<engine::Engine> engine) {
  PlanOptions options;
  options.contract = parse_contract("f32-tree-v1,T=block:8");
  options.shape = {32, 48};
  options.layout = parse_layout("cp8");
  options.max_tokens = 64;
  options.engine = std::move(engine);
  return traffic_of(options, TokenShards::contiguous(64, 8), 0).backward;
}

bool exchanges_covers(const std::vector<Collective>& collectives) {
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const Collective& c) { return c.what.starts_with("covers of"); });
}

TEST(Traffic, AnEngineThatFinishesFewerNodesGathers) {
  EXPECT_TRUE(exchanges_covers(eight_nodes(nullptr)));
  EXPECT_TRUE(exchanges_covers(eight_nodes(std::make_shared<FewNodesEngine>(8))));
  EXPECT_FALSE(exchanges_covers(eight_nodes(std::make_shared<FewNodesEngine>(7))));
}

// Where no thread can be started, with a stack beyond every address space, nothing that needs one is made.
TEST(Traffic, WithoutAnEngineNoneIsMade) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 60), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_ANY_THROW(make_cpu_engine({.threads = 2}));
  EXPECT_NO_THROW(eight_nodes(nullptr));
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}

}  // namespace
}  // namespace samebits::test
