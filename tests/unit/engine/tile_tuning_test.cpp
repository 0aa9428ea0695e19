// Tiles for many tokens: what is chosen is built, fits the device, and no width leaves the busiest block more
// products than another would.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cuda/sm90/tiles.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using namespace engine::cuda;

constexpr int kTileRows = 128;

std::int64_t waves(const TileTuning& tuning, bool gate_and_up, std::int64_t rows, std::int64_t cols,
                   const TileDevice& device) {
  const int size = tuning.cluster.rows * tuning.cluster.cols;
  const int columns = gate_and_up ? tuning.width / 2 : tuning.width;
  const std::int64_t groups = std::int64_t{groups_of(rows, kTileRows * tuning.cluster.rows)} *
                              groups_of(cols, columns * tuning.cluster.cols);
  return groups_of(groups, device.blocks(size) / size);
}

TEST(TileTuning, RandomResults) {
  Random random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t rows = uniform(random, 1, 9000), cols = uniform(random, 1, 30000),
                       k = uniform(random, 1, 30000);
    const bool gate_and_up = uniform(random, 0, 1) == 0;
    const int blocks = static_cast<int>(uniform(random, 2, 150));
    const TileDevice device{{blocks, blocks / 2 * 2}};
    const TileTuning chosen = choose_tiles(gate_and_up, rows, cols, k, device);
    ASSERT_TRUE(chosen.width == 256 || chosen.width == 128 || (gate_and_up && chosen.width == 192));
    ASSERT_LE(chosen.cluster.rows * chosen.cluster.cols, 2);
    const auto work = [&](const TileTuning& tuning) {
      return waves(tuning, gate_and_up, rows, cols, device) * tuning.width;
    };
    // Half as much again is what the rest of a choice (loads, epilogues) may outweigh.
    for (const int width : {256, 128}) {
      ASSERT_LE(2 * work(chosen), 3 * work({width, {1, 1}}) + 2 * chosen.width)
          << rows << " x " << cols << " x " << k << ", " << blocks << " blocks";
    }
  }
}

TEST(TileTuning, SizesThatMatter) {
  const TileDevice h200{{132, 132}};
  // Qwen3-8B: 96 columns of gate and of up give 128 blocks a tile at 65 to 128 tokens.
  EXPECT_EQ(choose_tiles(true, 128, 12288, 4096, h200).width, 192);
  EXPECT_EQ(choose_tiles(true, 2048, 12288, 4096, h200).width, 256);
  EXPECT_EQ(choose_tiles(false, 512, 4096, 12288, h200).width, 128);
  EXPECT_EQ(choose_tiles(false, 2048, 4096, 12288, h200).width, 256);
  // A device on which no cluster of two fits.
  EXPECT_EQ(choose_tiles(false, 2048, 4096, 12288, {{132, 0}}).cluster.rows, 1);
}

}  // namespace
}  // namespace samebits::test
