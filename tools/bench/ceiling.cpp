#include "bench/ceiling.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "shared/parallel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace samebits::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSteps = 40'000'000;  // of a chain of multiply-adds: some tens of milliseconds
constexpr int kPasses = 3;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// Each loop keeps enough independent accumulators to fill the pipelines, and returns their sum so that none
// is dropped. The factor is read from outside, so that nothing is computed ahead of time.

struct Loop {
  const char* isa;
  double flops_a_step;
  float (*run)(std::int64_t steps, float factor);
};

float plain_loop(std::int64_t steps, float factor) {
  constexpr int kLanes = 32;  // of the widest vectors that every processor of this kind has, eight of them
  float acc[kLanes] = {};
  for (std::int64_t step = 0; step < steps; ++step) {
    for (float& lane : acc) lane = lane * factor + factor;
  }
  float sum = 0;
  for (const float lane : acc) sum += lane;
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float avx2_loop(std::int64_t steps, float factor) {
  const __m256 f = _mm256_set1_ps(factor);
  __m256 acc[12] = {};
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], f, f);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  float lanes[8];
  _mm256_storeu_ps(lanes, acc[0]);
  return lanes[0];
}

__attribute__((target("avx512f"))) float avx512_loop(std::int64_t steps, float factor) {
  const __m512 f = _mm512_set1_ps(factor);
  __m512 acc[12] = {};
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_fmadd_ps(acc[i], f, f);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  float lanes[16];
  _mm512_storeu_ps(lanes, acc[0]);
  return lanes[0];
}

__attribute__((target("avx2"))) std::uint64_t read_avx2(const unsigned char* data, std::size_t bytes) {
  __m256i acc[8] = {};
  for (std::size_t at = 0; at + 256 <= bytes; at += 256) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      acc[i] =
          _mm256_xor_si256(acc[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + 32 * i)));
    }
  }
  for (int i = 1; i < 8; ++i) acc[0] = _mm256_xor_si256(acc[0], acc[i]);
  return static_cast<std::uint64_t>(_mm256_extract_epi64(acc[0], 0));
}
#endif

std::uint64_t read_plain(const unsigned char* data, std::size_t bytes) {
  std::uint64_t acc[8] = {};
  for (std::size_t at = 0; at + sizeof acc <= bytes; at += sizeof acc) {
    std::uint64_t words[8];
    std::memcpy(words, data + at, sizeof words);
    for (int i = 0; i < 8; ++i) acc[i] ^= words[i];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t word : acc) all ^= word;
  return all;
}

std::uint64_t read_all(const unsigned char* data, std::size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return read_avx2(data, bytes);
#endif
  return read_plain(data, bytes);
}

std::vector<Loop> loops_here() {
  std::vector<Loop> loops{{"plain", 2.0 * 32, plain_loop}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    loops.push_back({"avx2", 2.0 * 12 * 8, avx2_loop});
  if (__builtin_cpu_supports("avx512f")) loops.push_back({"avx512", 2.0 * 12 * 16, avx512_loop});
#endif
  return loops;
}

}  // namespace

std::vector<PeakFlops> measure_peak_flops(int threads) {
  std::vector<PeakFlops> peaks;
  std::atomic<float> sink{0};
  for (const Loop& loop : loops_here()) {
    double best = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::int64_t steps = kSteps / 4;
      const auto begun = Clock::now();
      parallel_parts(threads, threads,
                     [&](std::int64_t, std::int64_t, int) { sink.store(loop.run(steps, 0.5f)); });
      best = std::max(best, loop.flops_a_step * static_cast<double>(steps) * threads / seconds_since(begun));
    }
    peaks.push_back({loop.isa, best});
  }
  return peaks;
}

double measure_read_bandwidth(const std::vector<ConstView>& tensors, int threads) {
  double best = 0;
  std::atomic<std::uint64_t> sink{0};
  for (int pass = 0; pass <= kPasses; ++pass) {
    std::int64_t total = 0;
    const auto begun = Clock::now();
    for (const ConstView& tensor : tensors) {
      const auto* const data = static_cast<const unsigned char*>(tensor.data);
      const auto bytes = tensor.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
      total += bytes;
      parallel_parts(threads, bytes, [&](std::int64_t begin, std::int64_t end, int) {
        sink.fetch_xor(read_all(data + begin, static_cast<std::size_t>(end - begin)));
      });
    }
    best = std::max(best, static_cast<double>(total) / seconds_since(begun));
  }
  return best;
}

}  // namespace samebits::tools
