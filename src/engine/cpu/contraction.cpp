#include "engine/cpu/contraction.hpp"

#include <algorithm>

#include "samebits/error.hpp"

namespace samebits::engine::cpu {
namespace {

constexpr int kTileRows = 192;
constexpr int kTileLanes = 512;
constexpr std::int64_t kStateFloats = std::int64_t{1} << 20;
constexpr int kLanePanels = kTileLanes / 8;  // of the narrowest vectors

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The result over an empty axis is +0.
void fill_zero(const ContractionProblem& p) {
  for (std::int64_t row = 0; row < p.row_count; ++row) {
    for (std::int64_t lane = 0; lane < p.lane_count; ++lane) {
      const std::int64_t at = row * p.target.row_stride + lane * p.target.lane_stride;
      if (p.target.f32) {
        static_cast<float*>(p.target.data)[at] = 0.0f;
      } else {
        static_cast<std::uint16_t*>(p.target.data)[at] = 0;
      }
    }
  }
}

// rows [row0, row0 + row_count) x lanes [lane0, lane0 + lane_count), from first chunk to finished stacks.
struct MacroTile {
  const ContractionProblem& problem;
  const ContractionTuning& tuning;
  const KernelTable& kernels;
  Scratch& scratch;
  std::int64_t row0, row_count, lane0, lane_count;

  const LeafKernels& leaf() const { return kernels.leaf(problem.leaf); }
  int rows_of(std::int64_t row) const {
    return static_cast<int>(std::min<std::int64_t>(tuning.panel_rows, row_count - row));
  }
  int lanes_of(std::int64_t lane) const {
    return static_cast<int>(std::min<std::int64_t>(tuning.panel_width, lane_count - lane));
  }
  // A narrow last panel takes one vector.
  int width_of(std::int64_t lane) const {
    return lanes_of(lane) <= kernels.lanes ? kernels.lanes : tuning.panel_width;
  }
  float* state_of(std::int64_t row, std::int64_t lane) const {
    const std::int64_t panels = tuning.lane_panels;
    const std::int64_t index = row / tuning.panel_rows * panels + lane / tuning.panel_width;
    return scratch.state() + index * problem.program->levels() * tuning.panel_rows * tuning.panel_width;
  }

  void prepare(const Chunk& chunk) const {
    for (std::int64_t row = 0; row < row_count; row += tuning.panel_rows) {
      Source source = problem.rows;
      source.data += (row0 + row) * source.outer_stride + chunk.begin * source.inner_stride;
      leaf().prepare_rows(source, rows_of(row), chunk.k, scratch.rows(row));
    }
    // Lanes that are contiguous (rows of a weight) are read 16 rows at a time across all panels, not panel by
    // panel down a column of pages.
    const int step = problem.lanes.inner_stride == 1 ? 16 : chunk.k;
    for (int k = 0; k < chunk.k; k += step) {
      for (std::int64_t lane = 0; lane < lane_count; lane += tuning.panel_width) {
        Source source = problem.lanes;
        source.data += (chunk.begin + k) * source.outer_stride + (lane0 + lane) * source.inner_stride;
        Panel out = scratch.lanes(lane, padded(chunk.k));
        out.value += k * width_of(lane);
        out.exponent += k * width_of(lane);
        out.special += k / 16;
        leaf().prepare_lanes(source, std::min(step, chunk.k - k), lanes_of(lane), width_of(lane), out);
      }
    }
  }

  void compute(const Chunk& chunk) const {
    for (std::int64_t row = 0; row < row_count; row += tuning.panel_rows) {
      for (std::int64_t lane = 0; lane < lane_count; lane += tuning.panel_width) {
        const Tile tile{scratch.rows(row),   scratch.lanes(lane, padded(chunk.k)),
                        state_of(row, lane), problem.program->pieces(chunk),
                        chunk.pieces,        chunk.height,
                        problem.round_nodes};
        leaf().tile[width_of(lane) / kernels.lanes - 1][rows_of(row) - 1](tile);
      }
    }
  }

  void write() const {
    for (std::int64_t row = 0; row < row_count; row += tuning.panel_rows) {
      for (std::int64_t lane = 0; lane < lane_count; lane += tuning.panel_width) {
        const int rows = rows_of(row), width = width_of(lane), level = rows * width;
        Target target = problem.target;
        const std::int64_t at = (row0 + row) * target.row_stride + (lane0 + lane) * target.lane_stride;
        target.data = static_cast<unsigned char*>(target.data) + at * (target.f32 ? 4 : 2);
        kernels.write(state_of(row, lane) + level, rows, lanes_of(lane), width, level,
                      problem.program->nodes(), target);
      }
    }
  }

  // The open accumulators, element by element: move(state of a tile, the caller's).
  template <class Move>
  void for_each_open(const Move& move) const {
    for (std::int64_t row = 0; row < row_count; row += tuning.panel_rows) {
      for (std::int64_t lane = 0; lane < lane_count; lane += tuning.panel_width) {
        float* const state = state_of(row, lane);
        float* const open =
            problem.open + (row0 + row) * problem.open_row_stride + (lane0 + lane) * problem.open_lane_stride;
        const int rows = rows_of(row), lanes = lanes_of(lane), width = width_of(lane);
        for (int r = 0; r < rows; ++r) {
          for (int i = 0; i < lanes; ++i)
            move(state[r * width + i], open[r * problem.open_row_stride + i * problem.open_lane_stride]);
        }
      }
    }
  }
  void resume() const {
    for_each_open([](float& state, const float& open) { state = open; });
  }
  void leave_open() const {
    for_each_open([](const float& state, float& open) { open = state; });
  }

  static int padded(int k) { return (k + 15) / 16 * 16; }
};

}  // namespace

ContractionTuning choose_tuning(const ContractionProblem& problem, const KernelTable& kernels, int threads) {
  ContractionTuning tuning;
  const std::int64_t most_rows = kernels.panel_rows;
  const std::int64_t full = ceil_div(problem.row_count, most_rows);
  tuning.panel_rows = static_cast<int>(ceil_div(problem.row_count, full));  // few rows: panels of even height
  tuning.panel_width = kernels.lanes * (problem.lane_count <= kernels.lanes ? 1 : kernels.panel_vectors);
  std::int64_t row_panels = std::min(ceil_div(problem.row_count, tuning.panel_rows), kTileRows / most_rows);
  std::int64_t lane_panels = std::min<std::int64_t>(ceil_div(problem.lane_count, tuning.panel_width),
                                                    kTileLanes / tuning.panel_width);

  const auto halve_larger = [&] {
    std::int64_t& larger =
        row_panels * tuning.panel_rows >= lane_panels * tuning.panel_width && row_panels > 1 ? row_panels
        : lane_panels > 1                                                                    ? lane_panels
                                                                                             : row_panels;
    larger = ceil_div(larger, 2);
  };
  const auto state_floats = [&] {
    return row_panels * lane_panels * tuning.panel_rows * tuning.panel_width * problem.program->levels();
  };
  const auto tiles = [&] {
    return ceil_div(problem.row_count, row_panels * tuning.panel_rows) *
           ceil_div(problem.lane_count, lane_panels * tuning.panel_width);
  };
  while (state_floats() > kStateFloats && row_panels * lane_panels > 1) halve_larger();
  while (state_floats() > kStateFloats && tuning.panel_rows > 1)
    tuning.panel_rows = (tuning.panel_rows + 1) / 2;
  if (state_floats() > kStateFloats) {
    throw Error(ErrorCode::refused,
                "a token shard of this many intervals has more cover nodes than a tile holds");
  }
  while (threads > 1 && tiles() < 3 * threads && row_panels * lane_panels > 1) halve_larger();
  tuning.row_panels = static_cast<int>(row_panels);
  tuning.lane_panels = static_cast<int>(lane_panels);
  return tuning;
}

// Left uninitialised: pages that no tile touches are never there.
Scratch::Scratch()
    : row_value_(std::make_unique_for_overwrite<float[]>(kTileRows * kRowStride)),
      lane_value_(std::make_unique_for_overwrite<float[]>(kTileLanes * kRowStride)),
      state_(std::make_unique_for_overwrite<float[]>(kStateFloats)),
      row_exponent_(std::make_unique_for_overwrite<std::int32_t[]>(kTileRows * kRowStride)),
      lane_exponent_(std::make_unique_for_overwrite<std::int32_t[]>(kTileLanes * kRowStride)),
      row_special_(std::make_unique_for_overwrite<std::uint8_t[]>(kTileRows * kGroups)),
      lane_special_(std::make_unique_for_overwrite<std::uint8_t[]>(kLanePanels * kGroups)) {}

std::size_t Scratch::bytes() {
  return (kTileRows + kTileLanes) * kRowStride * std::size_t{8} + kStateFloats * 4 +
         (kTileRows + kLanePanels) * std::size_t{kGroups};
}

Panel Scratch::rows(std::int64_t row) {
  return {row_value_.get() + row * kRowStride, row_exponent_.get() + row * kRowStride,
          row_special_.get() + row * kGroups};
}

Panel Scratch::lanes(std::int64_t first_lane, int k) {
  return {lane_value_.get() + first_lane * k, lane_exponent_.get() + first_lane * k,
          lane_special_.get() + first_lane / 8 * kGroups};
}

void contract(const ContractionProblem& problem, const ContractionTuning& tuning, const KernelTable& kernels,
              ThreadPool& pool, std::vector<Scratch>& scratch) {
  if (problem.program->chunks().empty()) return fill_zero(problem);
  const std::int64_t rows = std::int64_t{tuning.row_panels} * tuning.panel_rows;
  const std::int64_t lanes = std::int64_t{tuning.lane_panels} * tuning.panel_width;
  const std::int64_t across = ceil_div(problem.lane_count, lanes);
  pool.run(ceil_div(problem.row_count, rows) * across, [&](std::int64_t task, int worker) {
    const std::int64_t row0 = task / across * rows, lane0 = task % across * lanes;
    const MacroTile tile{problem, tuning,
                         kernels, scratch[static_cast<std::size_t>(worker)],
                         row0,    std::min(rows, problem.row_count - row0),
                         lane0,   std::min(lanes, problem.lane_count - lane0)};
    if (problem.program->resumes()) tile.resume();
    for (const Chunk& chunk : problem.program->chunks()) {
      tile.prepare(chunk);
      tile.compute(chunk);
    }
    if (problem.program->stays_open()) tile.leave_open();
    tile.write();
  });
}

}  // namespace samebits::engine::cpu
