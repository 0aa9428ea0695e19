// The cuda engine timed: a plan and the baseline in graphs of several calls, replayed in turn.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "bench/cuda_ceiling.hpp"
#include "bench/cuda_chain.hpp"
#include "bench/cuda_sets.hpp"
#include "bench/device_bench.hpp"
#include "engine/engine.hpp"
#include "numerics/bf16.hpp"
#include "samebits/error.hpp"
#include "samebits/plan.hpp"

namespace samebits::tools {
namespace {

constexpr auto kWarmUp = std::chrono::milliseconds(150);
constexpr double kMostApart = 0.1;  // relative L2 between two roundings of one block

// A plan of one rank, called on one set after another.
class CudaOurs {
 public:
  CudaOurs(const Compute& compute, const Contract& contract, const Shape& shape, std::int64_t tokens,
           bool both, cudaStream_t stream)
      : tokens_(tokens), stream_(stream), plan_(options(compute, contract, shape, tokens, both)) {}

  void forward(const BlockSet& set) {
    ForwardArgs args;
    args.x = rows(set.x);
    args.y = rows(set.y);
    args.weights = plan_.slice(set.gate, set.up, set.down);
    args.queue = {stream_};
    plan_.forward(args);
  }

  void backward(const BlockSet& set) {
    BackwardArgs args;
    args.x = rows(set.x);
    args.dy = rows(set.dy);
    args.weights = plan_.slice(set.gate, set.up, set.down);
    args.dx = rows(set.dx);
    args.d_gate = set.d_gate;
    args.d_up = set.d_up;
    args.d_down = set.d_down;
    args.queue = {stream_};
    plan_.backward(args);
  }

 private:
  static PlanOptions options(const Compute& compute, const Contract& contract, const Shape& shape,
                             std::int64_t tokens, bool both) {
    PlanOptions options = compute.plan_options(shape, tokens, {}, both);
    options.contract = contract;
    options.engine = compute.device_engine;
    return options;
  }
  View rows(const View& all) const { return all.slice_rows(0, tokens_); }

  std::int64_t tokens_;
  cudaStream_t stream_;
  Plan plan_;
};

// The first rows of what a side has made, on the host.
std::vector<float> sample(const View& there, std::int64_t rows) {
  std::vector<numerics::Bf16> bits(static_cast<std::size_t>(rows * there.cols));
  check(cudaMemcpy(bits.data(), there.data, bits.size() * sizeof bits[0], cudaMemcpyDeviceToHost),
        "fetching results");
  std::vector<float> values;
  for (const numerics::Bf16 one : bits) values.push_back(numerics::widen(one));
  return values;
}

std::vector<std::vector<float>> samples_of(const BlockSet& set, std::int64_t tokens, bool both) {
  constexpr std::int64_t kRows = 64;
  std::vector<std::vector<float>> samples{sample(set.y, std::min(kRows, tokens))};
  if (!both) return samples;
  samples.push_back(sample(set.dx, std::min(kRows, tokens)));
  for (const View& gradient : {set.d_gate, set.d_up, set.d_down})
    samples.push_back(sample(gradient, std::min(kRows, gradient.rows)));
  return samples;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    apart += difference * difference;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return size > 0 ? std::sqrt(apart / size) : apart;
}

class CudaBench final : public DeviceBench {
 public:
  CudaBench(const Compute& compute, const BlockCase& most, const DeviceBenchOptions& options)
      : compute_(compute),
        shape_(most.shape),
        stream_(on_device(compute.device_engine->device())),
        blas_(CublasLt::load()),
        ceiling_(measure_cuda_ceiling(blas_.get(), stream_.get())),
        sets_(most, compute.device_engine->device(), options.both) {
    notes_.push_back(fmt::format("graphs of {} calls over {} sets of weights, replayed in turn",
                                 sets_.calls(), sets_.sets().size()));
    if (!sets_.beyond_cache())
      notes_.emplace_back("the sets fit in the cache or nearly: these are times of cached weights");
    if (!options.baseline) return;
    if (!blas_) {
      notes_.emplace_back("cuBLASLt was not found (LD_LIBRARY_PATH): no baseline");
      return;
    }
    baseline_ =
        fmt::format("unfused chain of cuBLASLt {} products and elementwise kernels", blas_->version());
  }

  BenchSamples time(const Contract& contract, std::int64_t tokens, Direction direction,
                    int repeats) override {
    const bool both = direction == Direction::both;
    CudaOurs ours(compute_, contract, shape_, tokens, both, stream_.get());
    const auto our_call = [&](const BlockSet& set) {
      ours.forward(set);
      if (both) ours.backward(set);
    };
    Side our_side = begin(our_call);
    const auto our_results = samples_of(sets_.of_call(0), tokens, both);

    std::optional<CudaChain> chain;
    std::optional<Side> their_side;
    if (!baseline_.empty()) {
      chain.emplace(*blas_, sets_, tokens, both, stream_.get());
      note_candidates(chain->fewest_candidates());
      their_side = begin([&](const BlockSet& set) {
        chain->forward(set, stream_.get());
        if (both) chain->backward(set, stream_.get());
      });
      check_same_block(our_results, samples_of(sets_.of_call(0), tokens, both));
    }

    const auto warm_until = std::chrono::steady_clock::now() + kWarmUp;
    do {
      replay(our_side);
      if (their_side) replay(*their_side);
    } while (std::chrono::steady_clock::now() < warm_until);
    BenchSamples samples;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      samples.ours_us.push_back(replay(our_side));
      if (their_side) samples.baseline_us.push_back(replay(*their_side));
    }
    return samples;
  }

  const Ceiling& ceiling() const override { return ceiling_; }
  const std::string& baseline() const override { return baseline_; }
  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  struct Side {
    CudaGraph graph;
    ReplayTimer timer;
  };

  static CudaStream on_device(const Device& device) {
    check(cudaSetDevice(device.index), "choosing a device");
    return make_stream();
  }

  // Called once as it is, so that kernels are loaded and results can be looked at; then as a graph.
  template <class Call>
  Side begin(const Call& call) {
    call(sets_.of_call(0));
    check(cudaStreamSynchronize(stream_.get()), "a first call");
    return {capture(stream_.get(),
                    [&] {
                      for (int i = 0; i < sets_.calls(); ++i) call(sets_.of_call(i));
                    }),
            ReplayTimer(stream_.get())};
  }

  // One call's share.
  double replay(Side& side) { return side.timer.microseconds(side.graph.get()) / sets_.calls(); }

  static void check_same_block(const std::vector<std::vector<float>>& ours,
                               const std::vector<std::vector<float>>& theirs) {
    constexpr const char* kNames[] = {"y", "dx", "d_gate", "d_up", "d_down"};
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const double apart = distance(ours[i], theirs[i]);
      if (apart <= kMostApart) continue;
      throw Error(
          ErrorCode::internal,
          fmt::format("the two sides of the bench do not compute one block: {} of both are {:.3g} apart "
                      "(relative L2)",
                      kNames[i], apart));
    }
  }

  // One note for all rows.
  void note_candidates(int fewest) {
    if (fewest_candidates_ == 0) notes_.emplace_back();
    fewest_candidates_ = fewest_candidates_ == 0 ? fewest : std::min(fewest_candidates_, fewest);
    notes_.back() =
        fmt::format("every product takes the fastest of at least {} algorithms that cuBLASLt proposes",
                    fewest_candidates_);
  }

  const Compute& compute_;
  Shape shape_;
  CudaStream stream_;
  std::unique_ptr<CublasLt> blas_;
  Ceiling ceiling_;
  CudaSets sets_;
  std::string baseline_;
  std::vector<std::string> notes_;
  int fewest_candidates_ = 0;
};

}  // namespace

std::unique_ptr<DeviceBench> make_cuda_bench(const Compute& compute, const BlockCase& most,
                                             const DeviceBenchOptions& options) {
  return std::make_unique<CudaBench>(compute, most, options);
}

}  // namespace samebits::tools
