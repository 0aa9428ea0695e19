// A plan whose transport is silent makes the same calls, and no byte leaves a rank.
#include "bench/silence.hpp"

#include <gtest/gtest.h>

#include "block/rank_tokens.hpp"
#include "samebits/plan.hpp"
#include "small_block.hpp"

namespace samebits::tools {
namespace {

TEST(Silence, LeavesEveryExchangeOfAPlanOut) {
  const SmallBlock small;
  const BlockCase& block = small.block();
  run_local(2, [&](int, std::shared_ptr<Transport> transport) {
    const auto moved = std::make_shared<Moved>();
    const auto silent = std::make_shared<bool>(false);
    Plan plan({.shape = block.shape,
               .max_tokens = block.tokens,
               .layout = {.tp = 2},
               .transport = silenceable(counting_transport(std::move(transport), moved), silent),
               .backward = false});
    HostTensor y(block.tokens, block.shape.hidden), again(block.tokens, block.shape.hidden);
    ForwardArgs args;
    args.x = block.x;
    args.y = y.view();
    args.weights = plan.slice(block.gate, block.up, block.down);
    *moved = {};
    plan.forward(args);
    const Moved first = *moved;
    EXPECT_GT(first.sent, 0u);

    *silent = true;
    args.y = again.view();
    plan.forward(args);  // buffers hold what arrived before
    EXPECT_EQ(moved->sent, first.sent);
    EXPECT_EQ(moved->collectives, first.collectives);

    *silent = false;
    plan.forward(args);
    EXPECT_EQ(moved->sent, 2 * first.sent);
    EXPECT_EQ(count_differing(std::as_const(y).view(), std::as_const(again).view()), 0);
  });
}

}  // namespace
}  // namespace samebits::tools
