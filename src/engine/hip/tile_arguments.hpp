// What the tile kernel is told.
#pragma once

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/leaves.hpp"
#include "engine/cuda/operands.hpp"
#include "engine/hip/tile_layout.hpp"

namespace samebits::engine::hip {

// `count` contractions of one shape; or, with `lanes` 2, the two whose roots are added into target[0].
struct TileArguments {
  Operand left[2], right[2];
  Target target[2];
  int count = 1, lanes = 1;
  Precision lanes_precision = Precision::f32;
  bool bf16_nodes = false;
  Carried carried;
  Pending pending;  // a slot a resident workgroup
};

inline constexpr std::int64_t kTileLevel = std::int64_t{kTile} * kTile;  // floats of a pending node

SAMEBITS_HD constexpr std::int64_t tiles_along(std::int64_t outer) { return (outer + kTile - 1) / kTile; }

}  // namespace samebits::engine::hip
