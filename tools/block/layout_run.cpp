#include "block/layout_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "block/assembly.hpp"
#include "block/on_ranks.hpp"
#include "block/process_group.hpp"
#include "block/rank_run.hpp"
#include "block/remote_results.hpp"
#include "block/run_ranks.hpp"
#include "block/staging.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {
namespace {

constexpr int kMostLocalRanks = 256;

// The block with its weights where the engine reads them, one copy for all ranks of this process.
BlockCase on_device(const BlockCase& block, Staging& weights) {
  BlockCase there = block;
  there.gate = weights.input(block.gate);
  there.up = weights.input(block.up);
  there.down = weights.input(block.down);
  return there;
}

void play_threads(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                  const TokenShards& shards, ResultSink& results) {
  Staging weights(compute.device_engine);
  const BlockCase there = on_device(block, weights);
  run_ranks(run.layout, [&](int rank, std::shared_ptr<Transport> transport) {
    RankRun(compute, there, run, shards, rank, std::move(transport)).go(results);
  });
}

// `results` on rank 0, null elsewhere.
void play_process(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                  const TokenShards& shards, ResultSink* results) {
  const World& world = *compute.world;
  on_ranks_of(run.layout, world, [&] {
    const auto group = process_group(*world.transport(), run.layout.ranks());
    const auto sink = results != nullptr ? receiving_sink(group, *results) : sending_sink(group);
    Staging weights(compute.device_engine);
    const BlockCase there = on_device(block, weights);
    // Rank 0 may have computed alone for long, which counts as silence where NCCL's ranks wait.
    exchange_nothing(*group, MemorySpace::host);
    const auto exchanging = compute.nccl ? process_group(*compute.nccl, run.layout.ranks()) : group;
    RankRun(compute, there, run, shards, world.rank(), exchanging).go(*sink);
  });
}

}  // namespace

void check_ranks(const Compute& compute, const Layout& layout) {
  const int ranks = layout.ranks();
  if (compute.has_processes() && ranks > compute.world->size()) {
    throw LayoutRefused(ErrorCode::refused,
                        fmt::format("layout {}: {} ranks, and this world has {}; mpirun -np {} starts enough",
                                    name_of(layout), ranks, compute.world->size(), ranks));
  }
  if (!compute.has_processes() && ranks > kMostLocalRanks) {
    throw LayoutRefused(ErrorCode::refused,
                        fmt::format("layout {}: {} ranks; the local transport plays at most {} as threads",
                                    name_of(layout), ranks, kMostLocalRanks));
  }
}

LayoutOutcome run_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                         BlockTensors& out) {
  check_ranks(compute, run.layout);
  const TokenShards shards = compute.shards(block.tokens, run.layout.cp);
  const auto begun = std::chrono::steady_clock::now();
  Assembly assembly(run, shards, out);
  if (compute.has_processes() && run.layout.ranks() > 1) {
    play_process(compute, block, run, shards, &assembly);
  } else {
    play_threads(compute, block, run, shards, assembly);
  }
  LayoutOutcome outcome = assembly.outcome();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return outcome;
}

void join_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run) {
  check_ranks(compute, run.layout);
  if (run.layout.ranks() > 1)
    play_process(compute, block, run, compute.shards(block.tokens, run.layout.cp), nullptr);
}

void refuse_by_name(const Layout& layout, const LayoutRefused& refusal) {
  if (layout.ranks() == 1) throw refusal;  // rank 0 alone has tried it
  throw KnownToAll(refusal.code(), refusal.what());
}

}  // namespace samebits::tools
