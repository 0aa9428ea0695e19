// The CPU engine: picks the kernels of this processor, lends its threads to the blocks prepared on it.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "engine/cpu/cpu_block.hpp"
#include "engine/engine.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace engine::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

bool has(Isa isa) {
#if defined(SAMEBITS_X86_KERNELS)
  switch (isa) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case Isa::automatic:
    case Isa::plain:
      return true;
  }
#endif
  return isa == Isa::automatic || isa == Isa::plain;
}

const KernelTable& kernels_of(Isa isa) {
#if defined(SAMEBITS_X86_KERNELS)
  if (isa == Isa::automatic) isa = has(Isa::avx512) ? Isa::avx512 : has(Isa::avx2) ? Isa::avx2 : Isa::plain;
  if (!has(isa)) {
    throw Error(
        ErrorCode::refused,
        fmt::format("this processor lacks {}; its best is {}",
                    isa == Isa::avx512 ? "AVX-512 (F, BW, DQ, VL)" : "AVX2 with FMA", best_isa_name()));
  }
  if (isa == Isa::avx512) return avx512_kernels();
  if (isa == Isa::avx2) return avx2_kernels();
#else
  if (!has(isa)) throw Error(ErrorCode::refused, "this build has the plain kernels only");
#endif
  return plain_kernels();
}

int available_threads() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

class CpuEngine final : public Engine {
 public:
  explicit CpuEngine(const CpuEngineOptions& options)
      : kernels_(kernels_of(options.isa)),
        pool_(std::make_shared<ThreadPool>(options.threads > 0 ? options.threads : available_threads())) {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} threads)", kernels_.name, pool_->threads());
  }
  Device device() const override { return {}; }

  std::unique_ptr<Block> prepare(const Problem& problem) override {
    return std::make_unique<CpuBlock>(problem, kernels_, pool_);
  }

  Memory allocate(std::size_t bytes) override {
    void* const memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
    if (memory == nullptr)
      throw Error(ErrorCode::out_of_memory, fmt::format("no {} bytes of host memory", bytes));
    return {memory, std::free};
  }

  void copy(const View& to, const ConstView& from, Queue) override {
    const std::size_t size = size_of(from.dtype);
    const auto copy_row = [&](std::int64_t row, int) {
      auto* const out =
          static_cast<unsigned char*>(to.data) + row * to.row_stride * static_cast<std::int64_t>(size);
      const auto* const in = static_cast<const unsigned char*>(from.data) +
                             row * from.row_stride * static_cast<std::int64_t>(size);
      if (to.rows_packed() && from.rows_packed()) {
        if (from.cols > 0) std::memcpy(out, in, static_cast<std::size_t>(from.cols) * size);
        return;
      }
      for (std::int64_t col = 0; col < from.cols; ++col) {
        std::memcpy(out + col * to.col_stride * static_cast<std::int64_t>(size),
                    in + col * from.col_stride * static_cast<std::int64_t>(size), size);
      }
    };
    // A copy that comes while a stage is computed, after an exchange beside it, does not wait for the stage.
    if (pool_->try_run(from.rows, copy_row)) return;
    for (std::int64_t row = 0; row < from.rows; ++row) copy_row(row, 0);
  }

 private:
  const KernelTable& kernels_;
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace
}  // namespace engine::cpu

std::shared_ptr<engine::Engine> make_cpu_engine(const CpuEngineOptions& options) {
  return std::make_shared<engine::cpu::CpuEngine>(options);
}

std::string best_isa_name() { return engine::cpu::kernels_of(Isa::automatic).name; }

}  // namespace samebits
