// The measuring half of fma_check.cu: stages at Qwen3-8B's size, each in a graph over sets of weights that
// together are several times the L2.
#pragma once

constexpr std::int64_t kH = 4096, kI = 12288;
constexpr int kSets = 3;

struct WeightSet {
  Matrix gate{kI, kH, 0, kNormal, 11}, up{kI, kH, 0, kNormal, 12}, down{kH, kI, 0, kNormal, 13};
};

// Median microseconds of one of `kSets` runs of `body(set, stream)`.
double median_us(int repeats, const std::function<void(int, cudaStream_t)>& body) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  for (int set = 0; set < kSets; ++set) body(set, stream);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  std::vector<float> times;
  for (int i = -2; i < repeats; ++i) {
    check(cudaEventRecord(begin, stream), "recording");
    check(cudaGraphLaunch(executable, stream), "launching a graph");
    check(cudaEventRecord(end, stream), "recording");
    check(cudaStreamSynchronize(stream), "running a graph");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "reading events");
    if (i >= 0) times.push_back(ms * 1e3f / kSets);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

__global__ void ffma_rate(float* out, int steps) {
  float acc[32];
  const float a = out[0], b = out[1];
  for (float& value : acc) value = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (float& value : acc) value = fmaf(value, a, b);
  }
  float sum = 0;
  for (const float value : acc) sum += value;
  if (sum == 1.2345f) out[2] = sum;
}

void print_time(const char* contract, std::int64_t tokens, const char* stage, double us, double bytes,
                double flop) {
  std::printf("%-10s %6lld %-10s %10.2f us  %6.2f TB/s  %6.2f TFLOP/s  %5.1f%% of FFMA\n", contract,
              static_cast<long long>(tokens), stage, us, bytes / us * 1e-6, flop / us * 1e-6,
              100.0 * flop / us * 1e6 / peak);
  std::fflush(stdout);
}

struct Stages {
  Bench& b;
  std::int64_t m;
  std::vector<std::unique_ptr<WeightSet>>& sets;
  Matrix x{m, kH, 0, kNormal, 1}, dy{m, kH, 0, kNormal, 2}, y{m, kH, 0, kNormal, 3};
  Matrix gate{m, kI, 0, kNormal, 4}, up{m, kI, 0, kNormal, 5}, act{m, kI, 0, kNormal, 6},
      dg{m, kI, 0, kNormal, 7}, du{m, kI, 0, kNormal, 8};
  Matrix grad{kI, kH, 0, kNormal, 9};

  static Target to(const Matrix& matrix) { return {matrix.memory.data(), false, matrix.stride, 1, 0}; }
  void axis(const numerics::AxisTree& tree) {
    const Interval whole{0, tree.length};
    b.leaves.build(tree, {&whole, 1});
  }
  void gate_up(int set, cudaStream_t s) {
    axis(b.problem.hidden);
    const WeightSet& w = *sets[static_cast<std::size_t>(set)];
    const Done done = b.kernels->gate_up(
        b.of(x.by_rows(), w.gate.by_rows(), kH, to(gate)), b.of(x.by_rows(), w.up.by_rows(), kH, to(up)),
        {gate.view(), up.view(), act.view(), true, b.contract.swiglu, b.sigma.as<float>()}, s);
    if (done == Done::contracted)
      activate(b.contract, b.sigma.as<float>(), gate.view(), up.view(), act.view(), s);
  }
  void down(int set, cudaStream_t s) {
    axis(b.problem.intermediate);
    b.kernels->contract(b.of(act.by_rows(), sets[static_cast<std::size_t>(set)]->down.by_rows(), kI, to(y)),
                        s);
  }
  void d_act(int set, cudaStream_t s) {
    axis(b.problem.hidden);
    b.kernels->contract(b.of(dy.by_rows(), sets[static_cast<std::size_t>(set)]->down.by_cols(), kH, to(du)),
                        s);
    activate_gradient(b.contract, b.sigma.as<float>(), du.view(), gate.view(), up.view(), dg.view(),
                      du.view(), s);
  }
  void d_hidden(int set, cudaStream_t s) {
    axis(b.problem.intermediate);
    const WeightSet& w = *sets[static_cast<std::size_t>(set)];
    b.kernels->contract_lanes(b.of(dg.by_rows(), w.gate.by_cols(), kI, to(y)),
                              b.of(du.by_rows(), w.up.by_cols(), kI, to(y)), b.contract.lanes, s);
  }
  void d_weight(int, cudaStream_t s) {
    axis(b.problem.tokens);
    b.kernels->contract(b.of(dg.by_cols(), x.by_cols(), m, to(grad)), s);
  }
};

// What a launch of the stream kernels was chosen to be.
void print_choice(Bench& b, std::int64_t m, const WeightSet& w, const Matrix& x, const Matrix& act) {
  const auto print = [&](const char* stage, const Operand& left, const Operand& right, std::int64_t k,
                         const numerics::AxisTree& tree, bool gate_up, int lanes) {
    const Interval whole{0, k};
    b.leaves.build(tree, {&whole, 1});
    fma_leaf::StreamProblem p;
    p.x[0] = p.x[1] = left;
    p.x[0].outer = p.x[1].outer = std::min<std::int64_t>(m, fma_leaf::kStreamTokens);
    p.weight[0] = p.weight[1] = right;
    p.gate_up = gate_up;
    p.lanes = lanes;
    p.bf16_nodes = b.bf16();
    p.k = static_cast<int>(k);
    const auto t = fma_leaf::choose_stream(p, b.leaves, multiprocessors);
    std::printf(
        "           %6lld %-10s thread %d tokens x %d rows, block %d x %d = %d threads, %d segments, %d "
        "stages, %d bytes shared\n",
        static_cast<long long>(m), stage, t.tokens, t.rows, t.token_groups, t.row_groups, t.threads(),
        t.segments, t.stages, t.shared_bytes);
  };
  print("gate_up", x.by_rows(), w.gate.by_rows(), kH, b.problem.hidden, true, 1);
  print("down", act.by_rows(), w.down.by_rows(), kI, b.problem.intermediate, false, 1);
  print("d_act", x.by_rows(), w.down.by_cols(), kH, b.problem.hidden, false, 1);
  print("d_hidden", act.by_rows(), w.gate.by_cols(), kI, b.problem.intermediate, false, 2);
}

void measure(const std::vector<std::int64_t>& tokens) {
  DeviceBuffer out(0, 4096);
  check(cudaMemset(out.data(), 0, 4096), "filling");
  constexpr int kSteps = 20000;
  const double rate = median_us(3, [&](int, cudaStream_t s) {
    ffma_rate<<<multiprocessors * 2, 512, 0, s>>>(out.as<float>(), kSteps);
  });
  const double measured = 2.0 * 32 * kSteps * 512 * 2 * multiprocessors / rate * 1e6;
  std::printf("FFMA alone: %.1f TFLOP/s\n", measured / 1e12);
  std::vector<std::unique_ptr<WeightSet>> sets;
  for (int i = 0; i < kSets; ++i) sets.push_back(std::make_unique<WeightSet>());
  for (const auto& [name, contract] : {std::pair{"f32-tree", kF32Tree}, std::pair{"bf16-tree", kBf16Tree}}) {
    for (const std::int64_t m : tokens) {
      Bench b(contract, m, kH, kI);
      Stages stages{b, m, sets};
      const double weight = 2.0 * kH * kI, flop = 2.0 * static_cast<double>(m) * kH * kI;
      const int repeats = m > 1000 ? 3 : 15;
      if (m <= fma_leaf::kMostStreamed) print_choice(b, m, *sets[0], stages.x, stages.act);
      const auto time = [&](const char* stage, double bytes, double work,
                            const std::function<void(int, cudaStream_t)>& body) {
        print_time(name, m, stage, median_us(repeats, body), bytes, work);
      };
      time("gate_up", 2 * weight, 2 * flop, [&](int set, cudaStream_t s) { stages.gate_up(set, s); });
      time("down", weight, flop, [&](int set, cudaStream_t s) { stages.down(set, s); });
      const auto forward = [&](int set, cudaStream_t s) {
        stages.gate_up(set, s);
        stages.down(set, s);
      };
      time("forward", 3 * weight, 3 * flop, forward);
      time("d_act", weight, flop, [&](int set, cudaStream_t s) { stages.d_act(set, s); });
      time("d_hidden", 2 * weight, 2 * flop, [&](int set, cudaStream_t s) { stages.d_hidden(set, s); });
      time("d_weight", weight, flop, [&](int set, cudaStream_t s) { stages.d_weight(set, s); });
      time("both", 9 * weight, 9 * flop, [&](int set, cudaStream_t s) {
        forward(set, s);
        stages.d_act(set, s);
        stages.d_hidden(set, s);
        for (int i = 0; i < 3; ++i) stages.d_weight(set, s);
      });
    }
  }
}

// Every launch of the stream kernels for a stage: the fastest ten and the one that is chosen.
void sweep(const std::vector<std::int64_t>& tokens) {
  std::vector<std::unique_ptr<WeightSet>> sets;
  for (int i = 0; i < kSets; ++i) sets.push_back(std::make_unique<WeightSet>());
  fma_leaf::prepare_stream_rows();
  fma_leaf::prepare_stream_columns();
  fma_leaf::prepare_stream_gate_up();
  auto cut_list = std::make_unique<fma_leaf::SegmentedLeaves>();
  for (const auto& [name, contract] : {std::pair{"f32-tree", kF32Tree}, std::pair{"bf16-tree", kBf16Tree}}) {
    for (const std::int64_t m : tokens) {
      Bench b(contract, m, kH, kI);
      Stages stages{b, m, sets};
      DeviceBuffer nodes(0, static_cast<std::size_t>(2 * fma_leaf::kMostSegmentNodes * m * kI) * 4);
      for (const std::string stage : {"gate_up", "down", "d_act", "d_hidden"}) {
        const bool gate_up = stage == "gate_up", over_h = gate_up || stage == "d_act";
        stages.axis(over_h ? b.problem.hidden : b.problem.intermediate);
        const auto problem_of = [&](int set) {
          const WeightSet& w = *sets[static_cast<std::size_t>(set)];
          fma_leaf::StreamProblem p;
          p.x[0] = p.x[1] = over_h ? stages.x.by_rows() : stages.act.by_rows();
          p.weight[0] = gate_up            ? w.gate.by_rows()
                        : stage == "down"  ? w.down.by_rows()
                        : stage == "d_act" ? w.down.by_cols()
                                           : w.gate.by_cols();
          p.weight[1] = gate_up ? w.up.by_rows() : stage == "d_hidden" ? w.up.by_cols() : p.weight[0];
          p.gate_up = gate_up;
          p.lanes = stage == "d_hidden" ? 2 : 1;
          p.bf16_nodes = b.bf16();
          p.k = static_cast<int>(over_h ? kH : kI);
          return p;
        };
        struct Line {
          double us, predicted;
          fma_leaf::StreamTuning tuning;
        };
        std::vector<Line> lines;
        fma_leaf::for_each_stream(problem_of(0), b.leaves, multiprocessors,
                                  [&](const fma_leaf::StreamTuning& t, double predicted) {
                                    lines.push_back({0, predicted, t});
                                  });
        // Hopeless launches are not worth device time.
        std::sort(lines.begin(), lines.end(),
                  [](const Line& a, const Line& c) { return a.predicted < c.predicted; });
        if (lines.size() > 60) lines.resize(60);
        for (Line& line : lines) {
          fma_leaf::StreamLaunch how;
          how.tuning = line.tuning;
          fma_leaf::cut_leaves(b.leaves, line.tuning.segments, *cut_list);
          how.tuning.segments = cut_list->segments;
          if (!fma_leaf::fit_stream(problem_of(0), cut_list->levels, how.tuning)) continue;
          how.leaves = cut_list.get();
          how.lane_stride = cut_list->nodes * m * problem_of(0).weight[0].outer;
          how.multiprocessors = multiprocessors;
          line.tuning = how.tuning;
          line.us = median_us(5, [&](int set, cudaStream_t s) {
            const auto p = problem_of(set);
            const std::int64_t cols = p.weight[0].outer;
            const Target to{nodes.data(), !b.bf16(), cols, 1, m * cols};
            if (gate_up) {
              fma_leaf::stream_gate_up(p,
                                       {stages.gate.view(), stages.up.view(), stages.act.view(), true,
                                        Swiglu::one, b.sigma.as<float>()},
                                       how, s);
            } else if (p.by_columns()) {
              fma_leaf::stream_columns(p, to, how, s);
            } else {
              fma_leaf::stream_rows(p, to, how, s);
            }
            if (!gate_up && (how.tuning.segments > 1 || p.lanes > 1)) {
              fma_leaf::finish_segments(
                  {nodes.data(), b.bf16(), static_cast<int>(m), static_cast<int>(cols), p.lanes}, *cut_list,
                  Precision::f32, {stages.grad.memory.data(), false, cols, 1, 0}, s);
            }
          });
        }
        const Line chosen = lines.front();
        std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& c) { return a.us < c.us; });
        lines.resize(std::min<std::size_t>(lines.size(), 10));
        lines.insert(lines.begin(), chosen);
        for (const Line& line : lines) {
          const auto& t = line.tuning;
          std::printf(
              "%s%-9s %3lld %-8s %8.2f us (thought %7.2f)  thread %2d x %d, block %d x %3d = %3d threads, "
              "%2d segments, %d stages\n",
              &line == &lines[0] ? "chosen " : "       ", name, static_cast<long long>(m), stage.c_str(),
              line.us, line.predicted / 1900, t.tokens, t.rows, t.token_groups, t.row_groups, t.threads(),
              t.segments, t.stages);
        }
        std::fflush(stdout);
      }
    }
  }
}
