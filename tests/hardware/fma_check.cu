// Do the fast kernels of leaf `fma` leave the bytes that the plain ones leave, and how long do they take?
// Runs by hand on an H100 or H200. Ends with 1 when anything differs.
//
//   nvcc -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr --expt-extended-lambda
//        -DFMT_HEADER_ONLY -DFMT_USE_CONSTEXPR=1 -gencode=arch=compute_90a,code=sm_90a
//        -Isrc -Iinclude tests/hardware/fma_check.cu
//        src/engine/cuda/fma/*.cu src/engine/cuda/fma/*.cpp src/engine/cuda/plain.cu
//        src/engine/cuda/elementwise.cu src/engine/cuda/leaves.cpp src/engine/cuda/tensor_encode.cpp
//        src/gpu/check.cpp src/gpu/device_*.cpp src/numerics/sigma.cpp -o fma_check
//   ./fma_check [words] [bytes] [times] [times=1,32] [sweep=1,8,32]      all but the sweep by default
//
// words: what is said of add.bf16x2 and cvt.bf16x2, over all inputs. bytes: every stage, against the plain
// kernels. times: every stage at Qwen3-8B's size, in graphs over rotating weights. sweep: every launch of the
// stream kernels.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/elementwise.hpp"
#include "engine/cuda/fma/finish.hpp"
#include "engine/cuda/fma/kernels.hpp"
#include "engine/cuda/fma/words.cuh"
#include "engine/cuda/plain.hpp"
#include "gpu/check.hpp"
#include "gpu/device_buffer.hpp"
#include "numerics/leaf.hpp"
#include "numerics/sigma.hpp"

namespace {

using namespace samebits;
using namespace samebits::engine;
using namespace samebits::engine::cuda;
using numerics::Bf16;
using Done = fma_leaf::Kernels::GateUpDone;

int multiprocessors = 0;
double peak = 0;  // FFMA, in flop/s at the clock that the device says it has
std::uint64_t failures = 0;

#include "fma_check_support.cuh"

// ---- words ----

__global__ void words(unsigned long long* wrong) {
  const auto same = [](std::uint32_t a, std::uint32_t b) {
    const bool nan = (a & 0x7FFF) > 0x7F80;
    return nan ? (b & 0x7FFF) > 0x7F80 : a == b;
  };
  for (std::uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < 1ull << 32; i += gridDim.x * 256ull) {
    const auto a = static_cast<Bf16>(i), b = static_cast<Bf16>(i >> 16);
    const std::uint32_t other = mix(i);
    // Four sums, both halves, so that whatever instructions the compiler mixes are all seen.
    const std::uint32_t sum[4] = {fma_leaf::add_two(a | other << 16, b | (other & 0xFFFF0000u)),
                                  fma_leaf::add_two((other & 0xFFFFu) | a << 16, other >> 16 | b << 16),
                                  fma_leaf::add_two(b | other << 16, a | (other & 0xFFFF0000u)),
                                  fma_leaf::add_two((other & 0xFFFFu) | b << 16, other >> 16 | a << 16)};
    const Bf16 want = numerics::round_bf16(numerics::widen(a) + numerics::widen(b));
    if (!same(want, sum[0] & 0xFFFF) || !same(want, sum[1] >> 16) || !same(want, sum[2] & 0xFFFF) ||
        !same(want, sum[3] >> 16)) {
      atomicAdd(wrong, 1ull);
      atomicMin(wrong + 1, static_cast<unsigned long long>(i));
    }
    const float x = __uint_as_float(static_cast<std::uint32_t>(i)), y = __uint_as_float(other);
    const std::uint32_t rounded = fma_leaf::round_two(x, y);
    const std::uint32_t canonical = fma_leaf::canonical_two(rounded);
    if (canonical != (numerics::round_bf16(x) | std::uint32_t{numerics::round_bf16(y)} << 16)) {
      atomicAdd(wrong + 2, 1ull);
      atomicMin(wrong + 3, static_cast<unsigned long long>(i));
    }
  }
}

void check_words() {
  DeviceBuffer result(0, 32);
  const unsigned long long start[4] = {0, ~0ull, 0, ~0ull};
  check(cudaMemcpy(result.data(), start, 32, cudaMemcpyHostToDevice), "starting");
  words<<<1056, 256>>>(result.as<unsigned long long>());
  unsigned long long found[4];
  check(cudaMemcpy(found, result.data(), 32, cudaMemcpyDeviceToHost), "running the words");
  std::printf("words      add.bf16x2: %llu of 2^32 pairs differ", found[0]);
  if (found[0] > 0) std::printf(" (first %08llx: upper and lower operand)", found[1]);
  std::printf("; cvt.bf16x2: %llu of 2^32 floats differ", found[2]);
  if (found[2] > 0) std::printf(" (first %08llx)", found[3]);
  std::printf("\n");
  failures += found[0] + found[2] > 0 ? 1 : 0;
}

// ---- a block of one size under one contract ----

struct Bench {
  Contract contract;
  Problem problem;
  Leaves leaves;
  int levels = 1;
  std::unique_ptr<fma_leaf::Kernels> kernels;
  DeviceBuffer plain_pending, sigma;

  Bench(const Contract& c, std::int64_t m, std::int64_t h, std::int64_t i) : contract(c) {
    problem = {c,
               numerics::axis_tree(c, c.hidden, h),
               numerics::axis_tree(c, c.intermediate, i),
               numerics::axis_tree(c, c.tokens, m),
               m,
               i,
               true};
    for (const numerics::AxisTree* tree : {&problem.hidden, &problem.intermediate, &problem.tokens}) {
      leaves.reserve(*tree);
      levels = std::max(levels, leaves.levels() + 1);
    }
    kernels = std::make_unique<fma_leaf::Kernels>(problem, 0, multiprocessors, levels);
    plain_pending =
        DeviceBuffer(0, sizeof(float) * plain_slots(multiprocessors) * levels * kPlainTile * kPlainTile);
    std::vector<float> table(65536);
    for (int g = 0; g < 65536; ++g)
      table[static_cast<std::size_t>(g)] = numerics::sigma(c.sigma, static_cast<Bf16>(g));
    sigma = DeviceBuffer(0, table.size() * 4);
    check(cudaMemcpy(sigma.data(), table.data(), sigma.bytes(), cudaMemcpyHostToDevice), "copying sigma");
  }
  bool bf16() const { return contract.node == Precision::bf16; }
  Contraction of(const Operand& left, const Operand& right, std::int64_t k, const Target& target) const {
    return {Leaf::fma, bf16(), left, right, k, &leaves, target};
  }
  void plain(const Contraction& c) const {
    contract_plain(c, {plain_pending.as<float>(), plain_slots(multiprocessors), levels}, nullptr);
  }
};

void served(bool is, const std::string& what) {
  if (is) return;
  ++failures;
  std::printf("NOT SERVED %s\n", what.c_str());
}

// Where a random legal shard of an axis begins or ends.
std::int64_t cut(const numerics::AxisTree& tree, std::uint64_t& random, std::int64_t multiple) {
  for (;;) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    const auto at = static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(tree.length + 1)) /
                    multiple * multiple;
    if (tree.cuts_between_leaves(at)) return at;
  }
}

std::string text_of(const Contract& contract) {
  const auto rule = [](const AxisRule& axis) {
    return (axis.rule == Rule::max     ? "max:"
            : axis.rule == Rule::halve ? "halve:"
                                       : "block:") +
           std::to_string(axis.value) + " ";
  };
  return std::string(contract.node == Precision::bf16 ? "bf16 " : "f32 ") + rule(contract.hidden) +
         rule(contract.intermediate) + rule(contract.tokens);
}

void check_block(const Contract& contract, Values kind, std::int64_t m, std::int64_t h, std::int64_t i,
                 std::int64_t pad) {
  Bench b(contract, m, h, i);
  std::uint64_t seed = static_cast<std::uint64_t>(m * 131 + h * 7 + i + kind), random = seed;
  const std::string name = text_of(contract) + kNames[kind] + " " + std::to_string(m) + "x" +
                           std::to_string(h) + "x" + std::to_string(i) + " pad " + std::to_string(pad) + " ";
  const Matrix x(m, h, pad, kind, ++seed), gate(i, h, pad, kind, ++seed), up(i, h, 2 * pad, kind, ++seed);
  const Matrix down(h, i, pad, kind, ++seed), dy(m, h, 0, kind, ++seed), act(m, i, pad, kind, ++seed),
      d_up(m, i, pad, kind, ++seed);
  const Interval whole_h{0, h}, whole_i{0, i}, whole_t{0, m};

  b.leaves.build(b.problem.hidden, {&whole_h, 1});
  for (const bool keep : {true, false}) {
    // `up` has another stride, which the fused kernel does not read: without padding they are alike.
    Output g(m, i, pad, 1, false), u(m, i, pad, 1, false), a(m, i, pad, 1, false);
    const auto plain_g = b.of(x.by_rows(), gate.by_rows(), h, g.target(g.want)),
               plain_u = b.of(x.by_rows(), up.by_rows(), h, u.target(u.want));
    b.plain(plain_g);
    b.plain(plain_u);
    activate(contract, b.sigma.as<float>(), g.view(g.want), u.view(u.want), a.view(a.want), nullptr);
    const Done done = b.kernels->gate_up(
        b.of(x.by_rows(), gate.by_rows(), h, g.target(g.got)),
        b.of(x.by_rows(), up.by_rows(), h, u.target(u.got)),
        {g.view(g.got), u.view(u.got), a.view(a.got), keep, contract.swiglu, b.sigma.as<float>()}, nullptr);
    served(done != Done::nothing || pad > 0, name + "gate_up");
    if (done == Done::nothing) break;
    if (done == Done::contracted)
      activate(contract, b.sigma.as<float>(), g.view(g.got), u.view(u.got), a.view(a.got), nullptr);
    a.expect_same(name + "act");
    if (!keep && done == Done::activated) continue;
    g.expect_same(name + "gate");
    u.expect_same(name + "up");
  }
  {
    Output d_act(m, i, pad, 1, false);
    b.plain(b.of(dy.by_rows(), down.by_cols(), h, d_act.target(d_act.want)));
    served(b.kernels->contract(b.of(dy.by_rows(), down.by_cols(), h, d_act.target(d_act.got)), nullptr),
           name + "d_act");
    d_act.expect_same(name + "d_act");
  }
  for (int part = 0; part < 3; ++part) {
    Interval axis = whole_i;
    if (part > 0) {
      axis = {cut(b.problem.intermediate, random, 8), cut(b.problem.intermediate, random, 1)};
      if (axis.begin >= axis.end) continue;
    }
    b.leaves.build(b.problem.intermediate, {&axis, 1});
    Output y(m, h, pad, b.leaves.nodes(), part == 0 ? pad > 0 : !b.bf16());
    const std::string what =
        name + "down [" + std::to_string(axis.begin) + "," + std::to_string(axis.end) + ") ";
    b.plain(b.of(act.by_rows(axis.begin), down.by_rows(axis.begin), axis.length(), y.target(y.want)));
    served(
        b.kernels->contract(
            b.of(act.by_rows(axis.begin), down.by_rows(axis.begin), axis.length(), y.target(y.got)), nullptr),
        what);
    y.expect_same(what);
    Output lane(m, h, 0, b.leaves.nodes(), !b.bf16());
    b.plain(b.of(act.by_rows(axis.begin), gate.by_cols(axis.begin), axis.length(), lane.target(lane.want)));
    served(b.kernels->contract(
               b.of(act.by_rows(axis.begin), gate.by_cols(axis.begin), axis.length(), lane.target(lane.got)),
               nullptr),
           what + "lane");
    lane.expect_same(what + "lane");
  }
  if (pad == 0) {
    b.leaves.build(b.problem.intermediate, {&whole_i, 1});
    Output dx(m, h, 0, 1, false), roots(2 * m, h, 0, 1, true);
    Target first = roots.target(roots.want), second = first;
    second.data = roots.want.as<float>() + m * h;
    b.plain(b.of(act.by_rows(), gate.by_cols(), i, first));
    b.plain(b.of(d_up.by_rows(), up.by_cols(), i, second));
    const FinishNode one{first.data, h, 0}, two{second.data, h, 0};
    cuda::finish(contract, {{&one, 1}, {&two, 1}, dx.view(dx.want)}, true, nullptr);
    const Target to = dx.target(dx.got);
    served(b.kernels->contract_lanes(b.of(act.by_rows(), gate.by_cols(), i, to),
                                     b.of(d_up.by_rows(), up.by_cols(), i, to), contract.lanes, nullptr),
           name + "d_hidden");
    dx.expect_same(name + "d_hidden");
  }
  for (int part = 0; part < 3; ++part) {
    Interval held = whole_t;
    if (part == 2) held = {cut(b.problem.tokens, random, 1), cut(b.problem.tokens, random, 1)};
    if (held.begin >= held.end) continue;
    b.leaves.build(b.problem.tokens, {&held, 1});
    Output dw(i, h, pad, b.leaves.nodes(), part == 2 ? !b.bf16() : part == 1);
    const std::string what =
        name + "d_weight [" + std::to_string(held.begin) + "," + std::to_string(held.end) + ") ";
    b.plain(b.of(d_up.by_cols(held.begin), x.by_cols(held.begin), held.length(), dw.target(dw.want)));
    served(
        b.kernels->contract(
            b.of(d_up.by_cols(held.begin), x.by_cols(held.begin), held.length(), dw.target(dw.got)), nullptr),
        what);
    dw.expect_same(what);
  }
}

Contract contract_of(Precision node, AxisRule h, AxisRule i, AxisRule t, Precision lanes, Swiglu swiglu) {
  return {Leaf::fma, h, i, t, node, lanes, swiglu, Sigma::exact};
}
const AxisRule kMax32{Rule::max, 32};
const Contract kBf16Tree = contract_of(Precision::bf16, kMax32, kMax32, kMax32, Precision::bf16, Swiglu::one);
const Contract kF32Tree = contract_of(Precision::f32, {Rule::halve, 0}, {Rule::halve, 3}, {Rule::block, 1024},
                                      Precision::f32, Swiglu::one);

void check_bytes() {
  const Contract odd = contract_of(Precision::f32, {Rule::max, 19}, {Rule::block, 24}, {Rule::max, 5},
                                   Precision::bf16, Swiglu::two);
  const Contract uneven = contract_of(Precision::bf16, {Rule::max, 45}, {Rule::halve, 2}, {Rule::block, 16},
                                      Precision::bf16, Swiglu::two);
  const std::uint64_t before = failures;
  int blocks = 0;
  for (const std::int64_t m :
       {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 63, 64, 65, 96, 97, 128, 130, 200, 300}) {
    for (const Contract& contract : {kBf16Tree, kF32Tree, odd, uneven}) {
      constexpr std::int64_t kSizes[][2] = {{64, 208},   {96, 152}, {256, 768},
                                            {608, 1216}, {8, 8},    {1000, 136}};
      for (const auto& size : kSizes) {
        check_block(contract, static_cast<Values>(blocks % kValues), m, size[0], size[1],
                    blocks % 3 == 0 ? 8 : 0);
        ++blocks;
      }
    }
  }
  for (const Contract& contract : {kBf16Tree, kF32Tree}) {
    for (const std::int64_t m : {1, 8, 32, 40, 160}) {
      for (const Values kind : {kNormal, kCancelling}) {
        check_block(contract, kind, m, 4096, 12288, 0);
        check_block(contract, kind, m, 2560, 9728, 0);  // Qwen3-4B: leaves of 20 and 19
        blocks += 2;
      }
    }
  }
  std::printf("bytes      %d blocks of up to 16 results each, %llu differ or are not served\n", blocks,
              static_cast<unsigned long long>(failures - before));
}

#include "fma_check_times.cuh"

std::vector<std::int64_t> numbers(const char* text) {
  std::vector<std::int64_t> out;
  for (const char* at = text; at != nullptr && *at != 0;
       at = std::strchr(at, ',') ? std::strchr(at, ',') + 1 : nullptr)
    out.push_back(std::atoll(at));
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "looking for a device");
  int clock = 0;
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0), "asking for the clock");
  multiprocessors = properties.multiProcessorCount;
  peak = 256.0 * multiprocessors * clock * 1e3;
  std::printf("%s, %d multiprocessors, %.0f MHz: FFMA peak %.1f TFLOP/s\n", properties.name, multiprocessors,
              clock / 1e3, peak / 1e12);
  const auto given = [&](const char* word) {
    for (int i = 1; i < argc; ++i) {
      if (std::strncmp(argv[i], word, std::strlen(word)) == 0) return argv[i];
    }
    return static_cast<char*>(nullptr);
  };
  const auto list = [](const char* argument, std::vector<std::int64_t> otherwise) {
    const char* equals = argument == nullptr ? nullptr : std::strchr(argument, '=');
    return equals == nullptr ? otherwise : numbers(equals + 1);
  };
  if (argc == 1 || given("words")) check_words();
  if (argc == 1 || given("bytes")) check_bytes();
  if (argc == 1 || given("times")) measure(list(given("times"), {1, 8, 16, 32, 64, 512, 8192}));
  if (given("sweep")) sweep(list(given("sweep"), {1, 8, 32}));
  if (failures > 0) std::printf("FAILED: %llu\n", static_cast<unsigned long long>(failures));
  return failures > 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::printf("FAILED: %s\n", error.what());
  return 1;
}
