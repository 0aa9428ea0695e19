// A workgroup of the hip engine's tiles on the host: its 256 threads take turns within a phase, and its waves
// step their matrix cores together. The cores are played after AMD's description of v_mfma_f32_32x32x8_bf16,
// by the lane and the register in which each element stands, and by the contract's arithmetic; nothing here
// is taken from the kernel's own index functions.
#pragma once

#include <cstring>
#include <vector>

#include "engine/hip/tile_run.hpp"
#include "numerics/leaf_gfx942.hpp"

namespace samebits::test {

class EmulatedGroup {
 public:
  EmulatedGroup(std::int64_t block, std::int64_t blocks)
      : block_(block), blocks_(blocks), threads_(engine::hip::kTileThreads) {
    std::memset(&memory_, 0xFF, sizeof memory_);  // NaNs: what is read before it is written shows
    for (auto& thread : threads_) std::memset(static_cast<void*>(&thread), 0xFF, sizeof thread);
  }

  std::int64_t block() const { return block_; }
  std::int64_t blocks() const { return blocks_; }
  engine::hip::TileMemory& memory() { return memory_; }
  void barrier() {}
  template <class Body>
  void each(const Body& body) {
    for (int thread = 0; thread < engine::hip::kTileThreads; ++thread) {
      body(thread, threads_[static_cast<std::size_t>(thread)]);
    }
  }

  void matrix_step() {
    for (int wave = 0; wave < 4; ++wave) {
      for (int m = 0; m < 2; ++m) {
        for (int n = 0; n < 2; ++n) step(&threads_[static_cast<std::size_t>(wave) * 64], m, n);
      }
    }
  }

 private:
  using Thread = engine::hip::TileThread;

  // D = A * B + C, 32 x 32, k of 8. Lane l gives row (column) l % 32 of A (B), k 4 * (l / 32) + j in element
  // j. It holds column l % 32 of D: element i is row 8 * (i / 4) + 4 * (l / 32) + i % 4.
  static void step(Thread* lanes, int m, int n) {
    numerics::Bf16 a[32][8], b[32][8];
    for (int lane = 0; lane < 64; ++lane) {
      for (int j = 0; j < 4; ++j) {
        a[lane % 32][4 * (lane / 32) + j] = static_cast<numerics::Bf16>(lanes[lane].a[m][j]);
        b[lane % 32][4 * (lane / 32) + j] = static_cast<numerics::Bf16>(lanes[lane].b[n][j]);
      }
    }
    for (int lane = 0; lane < 64; ++lane) {
      for (int i = 0; i < 16; ++i) {
        const int row = 8 * (i / 4) + 4 * (lane / 32) + i % 4, col = lane % 32;
        const float acc = lanes[lane].sum[m][n][i];
        lanes[lane].sum[m][n][i] = numerics::gfx942_step(
            acc, [&](int k) { return a[row][k]; }, [&](int k) { return b[col][k]; });
      }
    }
  }

  std::int64_t block_, blocks_;
  engine::hip::TileMemory memory_;
  std::vector<Thread> threads_;
};

}  // namespace samebits::test
