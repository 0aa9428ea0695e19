// The cuda engine timed on layouts: a process a rank, a GPU each, exchanges by NCCL.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bench/cuda_ceiling.hpp"
#include "bench/cuda_replay.hpp"
#include "bench/cuda_shard.hpp"
#include "bench/device_layouts.hpp"
#include "bench/layout_ranks.hpp"
#include "bench/rotation.hpp"
#include "bench/silence.hpp"
#include "block/layout_refused.hpp"
#include "block/on_ranks.hpp"
#include "block/process_group.hpp"
#include "block/rank_tokens.hpp"
#include "engine/engine.hpp"
#include "samebits/plan.hpp"

namespace samebits::tools {
namespace {

constexpr double kWarmUp = 50e3;            // microseconds
constexpr std::int64_t kManyTokens = 2048;  // a call is long: one turn through the sets is a graph
constexpr int kFewestCalls = 5;             // of a graph of shorter calls
constexpr double kMostWarmUp = 100;         // replays

// Of this rank's replays, one call's share each, in microseconds.
struct RankTimes {
  std::vector<double> whole, silent;  // silent: without exchanges; empty for one rank
};

// One row on one rank: a plan, and its calls on one set of operands after another.
class RankCalls {
 public:
  RankCalls(const PlanOptions& options, const BenchRun& run, const TokenShards& shards, cudaStream_t stream)
      : both_(run.direction == Direction::both), shards_(shards), stream_(stream), plan_(options) {}

  const Plan& plan() const { return plan_; }

  void call(const ShardSet& shard, const TokenSet& tokens) {
    ForwardArgs forward;
    forward.x = tokens.x;
    forward.y = tokens.y;
    forward.weights = shard.weights;
    forward.shards = &shards_;
    forward.tokens = shards_.tokens;
    forward.queue = {stream_};
    plan_.forward(forward);
    if (!both_) return;
    BackwardArgs backward;
    backward.x = tokens.x;
    backward.dy = tokens.dy;
    backward.weights = shard.weights;
    backward.dx = tokens.dx;
    backward.d_gate = shard.d_gate;
    backward.d_up = shard.d_up;
    backward.d_down = shard.d_down;
    backward.shards = &shards_;
    backward.tokens = shards_.tokens;
    backward.queue = {stream_};
    plan_.backward(backward);
  }

 private:
  bool both_;
  const TokenShards& shards_;
  cudaStream_t stream_;
  Plan plan_;
};

class CudaLayouts final : public DeviceLayouts {
 public:
  CudaLayouts(const Compute& compute, bool both)
      : compute_(compute),
        both_(both),
        device_(compute.device_engine->device()),
        stream_(on_device(device_)) {
    if (compute.world->first()) {
      const auto blas = CublasLt::load();
      ceiling_ = measure_cuda_ceiling(blas.get(), stream_.get());
    }
    notes_.emplace_back(
        "ranks are processes, a GPU each: a sample is the slowest rank's replay of a graph, a call's share; "
        "no "
        "baseline");
    notes_.emplace_back(
        "exposed: what replays take beyond replays in turn of the same calls with the exchanges left out");
  }

  BenchSamples time(const BlockCase& block, const BenchRun& run) override {
    const World& world = *compute_.world;
    if (shard_ && !(run.layout == shard_layout_)) shard_.reset();
    RankTimes mine;
    on_ranks_of(run.layout, world, [&] { allowed([&] { mine = time_rank(block, run); }); });
    BenchSamples samples;
    samples.ours_us = slowest_of_world(world, mine.whole);
    samples.exposed_us = difference(samples.ours_us, slowest_of_world(world, mine.silent));
    return samples;
  }

  const Ceiling& ceiling() const override { return ceiling_; }
  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  static CudaStream on_device(const Device& device) {
    check(cudaSetDevice(device.index), "choosing a device");
    return make_stream();
  }

  RankTimes time_rank(const BlockCase& block, const BenchRun& run) {
    const bool both = run.direction == Direction::both;
    const int ranks = run.layout.ranks(), rank = compute_.world->rank();
    const auto host = process_group(*compute_.world->transport(), ranks);
    exchange_nothing(*host, MemorySpace::host);  // what another rank did alone is no silence of NCCL's
    std::shared_ptr<Transport> exchanging;
    if (ranks > 1) exchanging = process_group(*compute_.nccl, ranks);
    const auto silent = std::make_shared<bool>(false);

    const TokenShards shards = compute_.shards(block.tokens, run.layout.cp);
    PlanOptions options = compute_.plan_options(block.shape, block.tokens, run.layout, both);
    options.engine = compute_.device_engine;
    if (exchanging) options.transport = silenceable(exchanging, silent);
    RankCalls calls(options, run, shards, stream_.get());
    const CudaShard& shard = shard_of(calls.plan(), block, run.layout);
    const CudaTokens tokens = tokens_of(block, tokens_of_rank(shards, run.layout, rank), both);
    const Rotation rotation = rotation_for(shard.forward_bytes(), cache_bytes_of(device_),
                                           block.tokens < kManyTokens ? kFewestCalls : 1);
    if (compute_.world->first()) note_rotation(run.layout, rotation);

    const auto graph_of_calls = [&] {
      return capture(stream_.get(), [&] {
        for (int i = 0; i < rotation.calls; ++i) call(calls, shard, tokens, i);
      });
    };
    // As it is at first, so that kernels are loaded and buffers hold what they will.
    call(calls, shard, tokens, 0);
    check(cudaStreamSynchronize(stream_.get()), "a first call");
    const CudaGraph whole = graph_of_calls();
    std::optional<CudaGraph> without;
    if (exchanging) {
      *silent = true;
      without = graph_of_calls();
    }
    CudaReplay replay(host, exchanging, stream_.get());
    const auto share = [&](const CudaGraph& graph) {
      return replay.microseconds(graph.get()) / rotation.calls;
    };
    share(whole);
    // All ranks warm up by as many replays.
    const double once = replay.most(share(whole)) * rotation.calls;
    const double warm_ups = std::clamp(std::ceil(kWarmUp / once), 1.0, kMostWarmUp);
    for (int i = 0; i < static_cast<int>(warm_ups); ++i) share(whole);
    if (without) share(*without);
    RankTimes times;
    for (int repeat = 0; repeat < run.repeats; ++repeat) {
      times.whole.push_back(share(whole));
      if (without) times.silent.push_back(share(*without));
    }
    return times;
  }

  static void call(RankCalls& calls, const CudaShard& shard, const CudaTokens& tokens, int i) {
    const std::size_t set = static_cast<std::size_t>(i) % shard.sets().size();
    calls.call(shard.sets()[set], tokens.sets()[set]);
  }

  // Kept from row to row of a layout.
  const CudaShard& shard_of(const Plan& plan, const BlockCase& block, const Layout& layout) {
    if (!shard_) {
      shard_.emplace(plan.slice(block.gate, block.up, block.down), plan.shard(), both_, device_);
      shard_layout_ = layout;
    }
    return *shard_;
  }

  CudaTokens tokens_of(const BlockCase& block, const std::vector<Interval>& mine, bool both) const {
    const HostTensor x = local_rows(block.x, mine);
    if (!both) return {x.view(), {}, shard_->sets().size(), device_};
    const HostTensor dy = local_rows(block.dy, mine);
    return {x.view(), dy.view(), shard_->sets().size(), device_};
  }

  // One note a layout.
  void note_rotation(const Layout& layout, const Rotation& rotation) {
    const std::string note = fmt::format(
        "{}: {} sets of a rank's weights{}", name_of(layout), rotation.sets,
        rotation.beyond_cache ? "" : ", which fit in the cache or nearly: times of cached weights");
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }

  const Compute& compute_;
  bool both_;
  Device device_;
  CudaStream stream_;
  Ceiling ceiling_;
  std::vector<std::string> notes_;
  std::optional<CudaShard> shard_;
  Layout shard_layout_;
};

}  // namespace

std::unique_ptr<DeviceLayouts> make_cuda_layouts(const Compute& compute, bool both) {
  return std::make_unique<CudaLayouts>(compute, both);
}

}  // namespace samebits::tools
