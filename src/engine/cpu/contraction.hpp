// One contraction on the CPU: the problem, the tuning, and the loops over macro tiles.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cpu/kernels.hpp"
#include "engine/cpu/program.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace samebits::engine::cpu {

struct ContractionProblem {
  Leaf leaf = Leaf::fma;
  bool round_nodes = false;
  Source rows{};  // (row, k): broadcast
  std::int64_t row_count = 0;
  Source lanes{};  // (k, lane): vector lanes
  std::int64_t lane_count = 0;
  const Program* program = nullptr;
  Target target{};
  float* open = nullptr;  // accumulators of a leaf that the program resumes, or leaves open
  std::int64_t open_row_stride = 0, open_lane_stride = 1;
};

// A macro tile is row_panels x lane_panels tiles that share their prepared operands. No bit depends on it.
struct ContractionTuning {
  int panel_rows = 1;
  int row_panels = 1;
  int lane_panels = 1;
  int panel_width = 1;  // lanes of a full tile
};

ContractionTuning choose_tuning(const ContractionProblem& problem, const KernelTable& kernels, int threads);

// What one worker needs beside the operands.
class Scratch {
 public:
  Scratch();
  Panel rows(std::int64_t row);                 // prepared rows from `row` on
  Panel lanes(std::int64_t first_lane, int k);  // prepared lanes of the panel that begins at `first_lane`
  float* state() { return state_.get(); }
  static std::size_t bytes();

 private:
  std::unique_ptr<float[]> row_value_, lane_value_, state_;
  std::unique_ptr<std::int32_t[]> row_exponent_, lane_exponent_;
  std::unique_ptr<std::uint8_t[]> row_special_, lane_special_;
};

// Runs it on the pool. `scratch` has one element a worker. Allocates nothing.
void contract(const ContractionProblem& problem, const ContractionTuning& tuning, const KernelTable& kernels,
              ThreadPool& pool, std::vector<Scratch>& scratch);

}  // namespace samebits::engine::cpu
