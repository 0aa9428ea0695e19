// A layout whose ranks are processes counts and assembles what ranks as threads do. Threads stand for the
// processes: each with a world of its own, as mpirun gives them one.
#include <gtest/gtest.h>

#include "block/layout_run.hpp"
#include "small_block.hpp"

namespace samebits::tools {
namespace {

Compute compute_on(std::shared_ptr<Transport> transport, ComputeFlags flags) {
  flags.transport = "mpi";
  flags.threads = 2;
  return Compute(flags, std::make_shared<World>(std::move(transport), "threads"));
}

// What rank 0 of `processes` finds.
LayoutOutcome outcome_of(int processes, const ComputeFlags& flags, const SmallBlock& small,
                         const LayoutRun& run, BlockTensors& out) {
  LayoutOutcome outcome;
  run_local(processes, [&](int rank, std::shared_ptr<Transport> transport) {
    const Compute compute = compute_on(std::move(transport), flags);
    if (rank == 0) {
      outcome = run_layout(compute, small.block(), run, out);
    } else {
      join_layout(compute, small.block(), {.layout = run.layout});
    }
  });
  return outcome;
}

TEST(ProcessRun, CountsWhatThreadsCount) {
  for (const char* split : {"contiguous", "zigzag"}) {
    for (const DType gradients : {DType::bf16, DType::f32}) {
      ComputeFlags flags;
      flags.split = split;
      const Compute local(flags);
      const SmallBlock small({64, 208}, 13, gradients);
      BlockTensors exact = small.run(local);
      const auto digests = digests_of(exact, 1);
      spoil(exact, kOutput, 6, 63);
      spoil(exact, kHiddenGradient, 0, 0);
      spoil(exact, kGateGradient, 207, 1);
      spoil(exact, kUpGradient, 0, 63);
      spoil(exact, kDownGradient, 63, 207);
      for (const char* name : {"tp1", "tp2", "tp2+sp", "tp3", "cp3", "tp2+cp2", "tp2+cp3+sp"}) {
        SCOPED_TRACE(name);
        const LayoutRun run{.layout = parse_layout(name), .exact = &exact};
        BlockTensors out(small.block().shape, small.block().tokens, gradients);
        const LayoutOutcome threads = run_layout(local, small.block(), run, out);
        for (const int processes : {run.layout.ranks(), run.layout.ranks() + 2}) {  // two are idle
          const LayoutOutcome made = outcome_of(processes, flags, small, run, out);
          EXPECT_EQ(made.differing, threads.differing);
          EXPECT_EQ(made.compared, threads.compared);
          EXPECT_EQ(digests_of(out, 1), digests);
        }
      }
    }
  }
}

TEST(ProcessRun, ARefusedLayoutIsRefusedOnEveryRankAndTheWorldGoesOn) {
  ComputeFlags flags;
  flags.contract = "hf-sm90-v1";
  flags.down = "columns";
  const SmallBlock small;
  BlockTensors out(small.block().shape, small.block().tokens, DType::bf16);
  run_local(3, [&](int rank, std::shared_ptr<Transport> transport) {
    const Compute compute = compute_on(std::move(transport), flags);
    const auto play = [&](const char* layout) {
      const LayoutRun run{.layout = parse_layout(layout)};
      if (rank == 0) {
        run_layout(compute, small.block(), run, out);
      } else {
        join_layout(compute, small.block(), run);
      }
    };
    EXPECT_THROW(play("tp2"), LayoutRefused);  // rank 2 has no part in it
    EXPECT_NO_THROW(play("cp2"));
    EXPECT_THROW(play("tp3"), LayoutRefused);
    EXPECT_THROW(play("tp2+cp2"), LayoutRefused);  // four ranks
    EXPECT_NO_THROW(play("cp3"));
  });
}

TEST(ProcessRun, InferenceAlone) {
  const SmallBlock small;
  const BlockTensors exact = small.run(compute_with());
  BlockTensors out(small.block().shape, small.block().tokens, DType::bf16, false);
  run_local(2, [&](int rank, std::shared_ptr<Transport> transport) {
    const Compute compute = compute_on(std::move(transport), {});
    const LayoutRun run{.layout = {2, 1, true}, .training = false};
    if (rank == 0) {
      run_layout(compute, small.block(), run, out);
    } else {
      join_layout(compute, small.block(), run);
    }
  });
  EXPECT_EQ(count_differing(std::as_const(out).view(kOutput), exact.view(kOutput)), 0);
}

// The stand-in moves host memory, so the cpu engine's plans can exchange over it.
TEST(ProcessRun, PlansExchangeOverNcclAndResultsTravelOverTheWorld) {
  const SmallBlock small({64, 208}, 13, DType::bf16);
  const Compute local({});
  const BlockTensors exact = small.run(local);
  for (const char* name : {"tp2", "tp2+cp2+sp"}) {
    SCOPED_TRACE(name);
    const LayoutRun run{.layout = parse_layout(name), .exact = &exact};
    BlockTensors out(small.block().shape, small.block().tokens, DType::bf16);
    run_local(4, [&](int rank, std::shared_ptr<Transport> transport) {
      NcclOptions options;
      options.bootstrap = transport;
      options.library = SAMEBITS_NCCL_STAND_IN;
      options.space = MemorySpace::host;
      const auto moved = std::make_shared<Moved>();
      Compute compute = compute_on(std::move(transport), {});
      compute.nccl = counting_transport(nccl_transport(options), moved);
      if (rank == 0) {
        const LayoutOutcome made = run_layout(compute, small.block(), run, out);
        EXPECT_EQ(made.differing, PerTensor<std::int64_t>{});
        EXPECT_GT(made.compared[kDownGradient], 0);
      } else {
        join_layout(compute, small.block(), run);
      }
      EXPECT_EQ(moved->sent > 0, rank < run.layout.ranks());
    });
    EXPECT_EQ(digests_of(out, 1), digests_of(exact, 1));
  }
}

}  // namespace
}  // namespace samebits::tools
