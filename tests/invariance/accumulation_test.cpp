// Weight gradients summed over micro-batches: however the tokens are cut, over calls and over ranks, the bits
// are those of one backward over all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "numerics/walk.hpp"
#include "samebits/accumulator.hpp"
#include "samebits/error.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

// Small leaves, so that a few tokens have a deep tree.
const std::vector<std::string> kContracts = {
    "bf16-tree-v1,T=max:3",  "bf16-tree-v1,T=block:5",
    "f32-tree-v1,T=block:8", "f32-tree-v1,T=halve:3",
    "f32-tree-v1,T=halve:0", "sm90-v1,T=block:16",
    "sm90-v1,T=block:48",    "sm90-v1,T=max:32,node=bf16",
    "sm90-v1,T=halve:2",     "hf-sm90-v1",
    "gfx942-v1,T=block:32",
};

template <class T>
T pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

// A call: which tokens of the sequence each context rank holds, in order, and how many rows of padding
// follow.
struct MicroBatch {
  std::vector<std::vector<Interval>> places;
  std::int64_t padding = 0;
  bool says_places = true;  // otherwise they follow the call before
};

struct Accumulated {
  BlockRun run;  // contract, engine, layout, threads, f32_gradients
  AccumulatorOptions options;
  std::vector<MicroBatch> calls;
  int times = 1;  // the whole sequence, again and again
};

std::int64_t count(const std::vector<Interval>& places) {
  std::int64_t tokens = 0;
  for (const Interval& interval : places) tokens += interval.length();
  return tokens;
}

// The rows of `whole` at `places`, then rows of NaN.
std::vector<std::uint16_t> rows_at(const std::vector<std::uint16_t>& whole,
                                   const std::vector<Interval>& places, std::int64_t padding,
                                   std::int64_t cols) {
  std::vector<std::uint16_t> rows;
  for (const Interval& interval : places)
    rows.insert(rows.end(), whole.begin() + interval.begin * cols, whole.begin() + interval.end * cols);
  rows.resize(rows.size() + static_cast<std::size_t>(padding * cols), 0x7FC1);
  return rows;
}

// Compares a rank's shard of a gradient with the whole one.
template <class T>
void expect_shard(const std::string& what, const Matrix& got, const std::vector<T>& whole,
                  std::int64_t whole_cols, std::int64_t row0, std::int64_t col0, Queue queue) {
  std::vector<T> expected;
  for (std::int64_t row = row0; row < row0 + got.rows(); ++row) {
    const auto at = whole.begin() + row * whole_cols + col0;
    expected.insert(expected.end(), at, at + got.cols());
  }
  expect_same_bits(what, got.read<T>(queue), expected, got.rows(), got.cols());
  EXPECT_TRUE(got.guards_hold(queue)) << what;
}

void play_rank(const Accumulated& plan_of, const BlockInputs& in, const BlockOutputs& expected, int rank,
               std::shared_ptr<Transport> transport) {
  const BlockRun& run = plan_of.run;
  const std::int64_t hidden = in.shape.hidden, intermediate = in.shape.intermediate;
  const auto engine =
      run.engine == EngineKind::cpu ? make_cpu_engine({run.threads, run.isa}) : device_engine(run.engine);
  const engine::OwnedQueue own_queue = engine->make_queue();
  const Queue queue{own_queue.get()};
  PlanOptions options;
  options.contract = run.contract;
  options.shape = in.shape;
  for (const MicroBatch& call : plan_of.calls) {
    std::int64_t tokens = call.padding;
    for (const auto& places : call.places) tokens += count(places);
    options.max_tokens = std::max(options.max_tokens, tokens);
  }
  options.max_rank_tokens = options.max_tokens;
  options.layout = run.layout;
  options.engine = engine;
  options.transport = std::move(transport);
  options.down = run.down;
  options.ranks_per_node = run.ranks_per_node;
  options.gradient_bytes = run.gradient_bytes;
  Plan plan(options);
  GradientAccumulator sum(plan, plan_of.options);

  const RankShard& shard = plan.shard();
  const auto cp_rank = static_cast<std::size_t>(shard.cp_rank);
  const Interval mine = shard.intermediate;
  const DType dtype = run.f32_gradients ? DType::f32 : DType::bf16;
  Matrix gate(*engine, intermediate, hidden, DType::bf16), up(*engine, intermediate, hidden, DType::bf16),
      down(*engine, hidden, intermediate, DType::bf16);
  gate.write(in.gate.data(), queue), up.write(in.up.data(), queue), down.write(in.down.data(), queue);
  Matrix d_gate(*engine, mine.length(), hidden, dtype, run.placement),
      d_up(*engine, mine.length(), hidden, dtype, run.placement),
      d_down(*engine, hidden, mine.length(), dtype, run.placement);

  for (int time = 0; time < plan_of.times; ++time) {
    for (const MicroBatch& call : plan_of.calls) {
      // In the call rank stands behind rank; the padding is the last rank's.
      std::vector<std::vector<Interval>> of_rank(call.places.size());
      std::int64_t counted = 0;
      for (std::size_t r = 0; r < of_rank.size(); ++r) {
        const std::int64_t tokens = count(call.places[r]);
        const std::int64_t padding = r + 1 == of_rank.size() ? call.padding : 0;
        if (tokens + padding > 0) of_rank[r].push_back({counted, counted + tokens + padding});
        counted += tokens;
      }
      const TokenShards shards = TokenShards::of(of_rank);
      const std::int64_t padding = cp_rank + 1 == of_rank.size() ? call.padding : 0;
      std::vector<std::uint16_t> my_x = rows_at(in.x, call.places[cp_rank], padding, hidden),
                                 my_dy = rows_at(in.dy, call.places[cp_rank], padding, hidden);
      std::int64_t rows = count(call.places[cp_rank]) + padding;
      if (run.layout.sequence_parallel && run.layout.tp > 1) {
        const Interval slice = even_slice(rows, run.layout.tp, shard.tp_rank);
        const auto cut = [&](std::vector<std::uint16_t>& all) {
          all = {all.begin() + slice.begin * hidden, all.begin() + slice.end * hidden};
        };
        cut(my_x), cut(my_dy);
        rows = slice.length();
      }
      Matrix x(*engine, rows, hidden, DType::bf16, run.placement),
          dy(*engine, rows, hidden, DType::bf16, run.placement), y(*engine, rows, hidden, DType::bf16),
          dx(*engine, rows, hidden, DType::bf16);
      x.write(my_x.data(), queue), dy.write(my_dy.data(), queue);
      ForwardArgs forward;
      forward.x = x.view();
      forward.y = y.view();
      forward.weights = plan.slice(gate.view(), up.view(), down.view());
      forward.shards = &shards;
      forward.queue = queue;
      plan.forward(forward);
      BackwardArgs backward;
      backward.x = x.view();
      backward.dy = dy.view();
      backward.weights = forward.weights;
      backward.dx = dx.view();
      backward.shards = &shards;
      backward.queue = queue;
      backward.counted = counted;
      backward.accumulate = &sum;
      if (call.says_places) backward.places = &call.places;
      plan.backward(backward);
      engine->synchronize(queue);
    }
    EXPECT_EQ(sum.tokens(), in.tokens);
    d_gate.poison(queue), d_up.poison(queue), d_down.poison(queue);
    sum.finish({d_gate.view(), d_up.view(), d_down.view()}, queue);
    EXPECT_EQ(sum.tokens(), 0);
    const std::string who = fmt::format("{}, rank {}, time {}: ", describe(run), rank, time);
    if (run.f32_gradients) {
      expect_shard(who + "d_gate", d_gate, expected.d_gate_f32, hidden, mine.begin, 0, queue);
      expect_shard(who + "d_up", d_up, expected.d_up_f32, hidden, mine.begin, 0, queue);
      expect_shard(who + "d_down", d_down, expected.d_down_f32, intermediate, 0, mine.begin, queue);
    } else {
      expect_shard(who + "d_gate", d_gate, expected.d_gate, hidden, mine.begin, 0, queue);
      expect_shard(who + "d_up", d_up, expected.d_up, hidden, mine.begin, 0, queue);
      expect_shard(who + "d_down", d_down, expected.d_down, intermediate, 0, mine.begin, queue);
    }
  }
}

void expect_sums_equal_one_backward(const Accumulated& accumulated, const BlockInputs& in) {
  BlockRun whole = accumulated.run;
  whole.layout = {};
  whole.down = DownCut::automatic;
  const BlockOutputs expected = run_block(whole, in);
  run_local(accumulated.run.layout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
    play_rank(accumulated, in, expected, rank, std::move(transport));
  });
}

numerics::AxisTree token_tree(const Contract& contract, std::int64_t tokens) {
  return numerics::axis_tree(contract, contract.tokens, tokens);
}

// Some ascending positions in [0, tokens] at which a stream may be cut: multiples of the granule from the
// beginning of their leaf.
std::vector<std::int64_t> random_cuts(Random& random, const Contract& contract, Interval stretch,
                                      std::int64_t tokens, int parts) {
  const numerics::AxisTree tree = token_tree(contract, tokens);
  std::vector<std::int64_t> cuts = {stretch.begin};
  for (int i = 1; i < parts; ++i) {
    std::int64_t at = uniform(random, stretch.begin, stretch.end);
    if (at < tokens) {
      const std::int64_t leaf = tree.leaf_at(at).begin;
      at = leaf + (at - leaf) / tree.granule * tree.granule;
    }
    cuts.push_back(at);
  }
  cuts.push_back(stretch.end);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// `parts` stretches of the sequence that are cut between leaves.
std::vector<std::int64_t> leaf_cuts(Random& random, const Contract& contract, std::int64_t tokens,
                                    int parts) {
  std::vector<std::int64_t> ends = {0};
  numerics::for_each_leaf(token_tree(contract, tokens), 0, tokens,
                          [&](const numerics::WalkStep& leaf) { ends.push_back(leaf.end); });
  std::vector<std::int64_t> cuts = {0};
  for (int i = 1; i < parts; ++i) cuts.push_back(pick(random, ends));
  cuts.push_back(tokens);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

std::vector<Interval> some(Interval interval) {
  return interval.length() > 0 ? std::vector<Interval>{interval} : std::vector<Interval>{};
}

Interval between(const std::vector<std::int64_t>& cuts, std::size_t i) { return {cuts[i], cuts[i + 1]}; }

struct Round {
  Accumulated accumulated;
  BlockInputs in;
};

Round random_round(Random& random, EngineKind engine) {
  Accumulated made;
  BlockRun& run = made.run;
  run.engine = engine;
  run.contract = parse_contract(pick(random, kContracts));
  run.layout = {static_cast<int>(uniform(random, 1, 3)), static_cast<int>(uniform(random, 1, 3)),
                uniform(random, 0, 1) == 1};
  if (uniform(random, 0, 2) == 0) {  // machines of two or three context ranks
    const auto [tp, cp, together] =
        pick<std::array<int, 3>>(random, {{1, 4, 2}, {2, 4, 2}, {1, 6, 2}, {1, 6, 3}});
    run.layout.tp = tp, run.layout.cp = cp;
    run.ranks_per_node = tp * together;
  }
  run.threads = static_cast<int>(uniform(random, 1, 2));
  run.down = static_cast<DownCut>(uniform(random, 0, 1) * 2);  // automatic or rows
  run.f32_gradients = uniform(random, 0, 1) == 1;
  run.placement = {uniform(random, 0, 3), uniform(random, 0, 3)};
  made.times = static_cast<int>(uniform(random, 1, 2));
  const std::int64_t tokens = uniform(random, 0, 5) == 0 ? uniform(random, 0, 3) : uniform(random, 4, 150);
  const BlockInputs in = random_inputs(random, kAllValues[uniform(random, 0, 5)],
                                       {uniform(random, 1, 40), uniform(random, 3, 60)}, tokens);
  // Strips of a few rows, half of the time; where a call brings more nodes than that, it is refused.
  const std::int64_t widest = std::max(in.shape.hidden, in.shape.intermediate);
  if (uniform(random, 0, 1) == 0)
    run.gradient_bytes = static_cast<std::size_t>(widest * run.layout.cp * 4 * uniform(random, 2, 60));
  const int parts = static_cast<int>(uniform(random, 1, 6));
  const auto cp = static_cast<std::size_t>(run.layout.cp);

  AccumulatorOptions& options = made.options;
  options.max_tokens = tokens + uniform(random, 0, 40);
  const Rule rule = run.contract.tokens.rule;
  const bool any_length = rule == Rule::block || (rule == Rule::halve && run.contract.tokens.value == 0);
  if (!any_length || uniform(random, 0, 2) == 0) options.tokens = options.max_tokens = tokens;
  const bool exchange = uniform(random, 0, 1) == 1;
  options.reduction = exchange ? GradientReduction::exchange_covers : GradientReduction::gather_tokens;
  const auto padding = [&] { return uniform(random, 0, 1) * uniform(random, 1, 9); };

  if (exchange && uniform(random, 0, 1) == 0) {
    // Every context rank fills a stretch of its own, cut anywhere.
    options.stretches = run.layout.cp;
    const std::vector<std::int64_t> stretches = leaf_cuts(random, run.contract, tokens, run.layout.cp);
    made.calls.resize(static_cast<std::size_t>(parts));
    for (MicroBatch& call : made.calls) call.places.resize(cp), call.padding = padding();
    for (std::size_t rank = 0; rank < cp; ++rank) {
      const auto cuts = random_cuts(random, run.contract, between(stretches, rank), tokens, parts);
      for (std::size_t i = 0; i < made.calls.size(); ++i) made.calls[i].places[rank] = some(between(cuts, i));
    }
    return {made, in};
  }
  // Call behind call. Exchanged: cut between leaves, over calls and over ranks. Gathered: anywhere over
  // ranks.
  std::vector<std::int64_t> cuts = exchange && cp > 1
                                       ? leaf_cuts(random, run.contract, tokens, parts * run.layout.cp)
                                       : random_cuts(random, run.contract, {0, tokens}, tokens, parts);
  for (int i = 0; i < parts; ++i) {
    MicroBatch call;
    call.padding = padding();
    call.says_places = uniform(random, 0, 1) == 1;
    if (exchange && cp > 1) {
      for (std::size_t rank = 0; rank < cp; ++rank)
        call.places.push_back(some(between(cuts, static_cast<std::size_t>(i) * cp + rank)));
    } else {
      const Interval all = between(cuts, static_cast<std::size_t>(i));
      std::vector<std::int64_t> ends = {all.begin};
      for (std::size_t rank = 1; rank < cp; ++rank) ends.push_back(uniform(random, all.begin, all.end));
      ends.push_back(all.end);
      std::sort(ends.begin(), ends.end());
      for (std::size_t rank = 0; rank < cp; ++rank) call.places.push_back(some(between(ends, rank)));
      if (call.says_places && uniform(random, 0, 1) == 1)
        std::reverse(call.places.begin(), call.places.end());
    }
    made.calls.push_back(call);
  }
  return {made, in};
}

using Accumulation = OnEngine;
INSTANTIATE_TEST_SUITE_P(, Accumulation, every_engine(), engine_name);

TEST_P(Accumulation, AnyCutsOverCallsAndRanks) {
  const char* const rounds_text = std::getenv("SAMEBITS_ROUNDS");
  const int rounds = rounds_text != nullptr ? std::atoi(rounds_text) : 250;
  int refused = 0;
  for (int number = 0; number < rounds; ++number) {
    Random random(9000 + number);
    const Round round = random_round(random, engine());
    if (!runs(engine(), round.accumulated.run.contract)) continue;
    SCOPED_TRACE(fmt::format("round {}, {} tokens in {} calls, {}x{}", number, round.in.tokens,
                             round.accumulated.calls.size(), round.in.shape.hidden,
                             round.in.shape.intermediate));
    try {
      expect_sums_equal_one_backward(round.accumulated, round.in);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::refused) << error.what();
      ASSERT_NE(std::string(error.what()).find("gradient_bytes"), std::string::npos) << error.what();
      ++refused;
    }
    if (HasFailure()) return;
  }
  EXPECT_LE(refused, rounds / 5);
}

// Presets as they are, and micro-batches that stand inside leaves of 1024 tokens, end with one, and pass it.
TEST_P(Accumulation, LongLeaves) {
  Random random(1);
  for (const char* text : {"f32-tree-v1", "sm90-v1", "hf-sm90-v1", "bf16-tree-v1"}) {
    Accumulated accumulated;
    accumulated.run.contract = parse_contract(text);
    accumulated.run.engine = engine();
    const BlockInputs in = random_inputs(random, Values::normal, {24, 40}, 2500);
    accumulated.options.max_tokens = 2500;
    if (std::string(text) == "bf16-tree-v1") accumulated.options.tokens = 2500;
    const std::int64_t cuts[] = {0, 512, 1024, 1040, 1040, 2080, 2500};
    for (int i = 0; i < 6; ++i) accumulated.calls.push_back({{some({cuts[i], cuts[i + 1]})}, i, false});
    // Under bf16-tree-v1 the leaves have 19 or 20 tokens and the granule is 1: any cut will do.
    expect_sums_equal_one_backward(accumulated, in);
  }
}

// Rows left out are as if they were not there: one backward, nothing accumulated.
TEST_P(Accumulation, PaddingCountsForNothing) {
  Random random(2);
  for (const std::string& text : kContracts) {
    BlockRun run;
    run.contract = parse_contract(text);
    run.engine = engine();
    if (!runs(engine(), run.contract)) continue;
    const BlockInputs in = random_inputs(random, Values::normal, {24, 40}, 37);
    const BlockOutputs expected = run_block(run, in);
    for (const int cp : {1, 2, 3}) {
      run_local(cp, [&](int rank, std::shared_ptr<Transport> transport) {
        const auto made =
            engine() == EngineKind::cpu ? make_cpu_engine({1, Isa::automatic}) : device_engine(engine());
        const engine::OwnedQueue own_queue = made->make_queue();
        const Queue queue{own_queue.get()};
        PlanOptions options;
        options.contract = run.contract;
        options.shape = in.shape;
        options.max_tokens = 50;
        options.layout = {1, cp, false};
        options.engine = made;
        options.transport = std::move(transport);
        Plan plan(options);
        const Interval rows = even_slice(50, cp, rank);
        const std::vector<Interval> real =
            some({rows.begin, std::max(rows.begin, std::min<std::int64_t>(rows.end, 37))});
        const std::int64_t padding = rows.length() - count(real);
        Matrix x(*made, rows.length(), 24, DType::bf16), dy(*made, rows.length(), 24, DType::bf16),
            y(*made, rows.length(), 24, DType::bf16), gate(*made, 40, 24, DType::bf16),
            up(*made, 40, 24, DType::bf16), down(*made, 24, 40, DType::bf16),
            d_gate(*made, 40, 24, DType::bf16), d_up(*made, 40, 24, DType::bf16),
            d_down(*made, 24, 40, DType::bf16);
        x.write(rows_at(in.x, real, padding, 24).data(), queue),
            dy.write(rows_at(in.dy, real, padding, 24).data(), queue);
        gate.write(in.gate.data(), queue), up.write(in.up.data(), queue), down.write(in.down.data(), queue);
        ForwardArgs forward;
        forward.x = x.view(), forward.y = y.view(), forward.tokens = 50, forward.queue = queue;
        forward.weights = plan.slice(gate.view(), up.view(), down.view());
        plan.forward(forward);
        BackwardArgs backward;
        backward.x = x.view(), backward.dy = dy.view(), backward.tokens = 50, backward.queue = queue;
        backward.weights = forward.weights;
        backward.d_gate = d_gate.view(), backward.d_up = d_up.view(), backward.d_down = d_down.view();
        backward.counted = 37;
        plan.backward(backward);
        expect_shard(text + " d_gate", d_gate, expected.d_gate, 24, 0, 0, queue);
        expect_shard(text + " d_up", d_up, expected.d_up, 24, 0, 0, queue);
        expect_shard(text + " d_down", d_down, expected.d_down, 40, 0, 0, queue);
      });
    }
  }
}

}  // namespace
}  // namespace samebits::test
