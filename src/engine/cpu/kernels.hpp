// The kernels of one instruction set, as a table: preparing operands, one tile of a contraction, writing it
// out.
#pragma once

#include <cstdint>

#include "numerics/leaf_table.hpp"

namespace samebits::engine::cpu {

inline constexpr int kChunk = 512;              // most k of one chunk
inline constexpr int kRowStride = kChunk + 16;  // of a prepared row, padded against cache set conflicts
inline constexpr int kGroups = kRowStride / 16;

// bf16 elements (outer, inner) at data[outer * outer_stride + inner * inner_stride].
struct Source {
  const std::uint16_t* data;
  std::int64_t outer_stride;
  std::int64_t inner_stride;
};

// An operand prepared for a leaf: f32 values (fma), or significands, exponents and a flag a group of 16 k
// that holds NaN or infinity (the matrix-core leaves).
struct Panel {
  float* value;
  std::int32_t* exponent;
  std::uint8_t* special;
};

// A run of consecutive k inside one leaf. Positions are relative to the chunk.
struct Piece {
  int begin = 0;
  int end = 0;
  bool opens = true;   // the leaf begins here; otherwise its accumulator is carried
  bool closes = true;  // the leaf ends here: its node is pushed, and `merges` nodes are made
  int merges = 0;
};

// rows x lanes outputs of one tile. Rows are broadcast, lanes are vector lanes.
struct Tile {
  Panel rows;    // [row][kRowStride]
  Panel lanes;   // [k][width]
  float* state;  // [level][row][width]; level 0 is the open accumulator, level n the n-th node of the stack
  const Piece* pieces;
  int count;
  int height;  // nodes on the stack before the first piece
  bool round_nodes;
};

// Where finished stacks go. Element (row, lane) of node n at data[row * row_stride + lane * lane_stride + n *
// node_stride].
struct Target {
  void* data;
  bool f32;
  std::int64_t row_stride;
  std::int64_t lane_stride;
  std::int64_t node_stride;
};

inline constexpr int kMostPanelRows = 12;

struct LeafKernels {
  // [outer][kRowStride]: a row operand; inner is k.
  void (*prepare_rows)(const Source& source, int rows, int k, const Panel& out);
  // [k][width]: a lane operand; outer is k.
  void (*prepare_lanes)(const Source& source, int k, int lanes, int width, const Panel& out);
  // tile[vectors - 1][rows - 1]
  void (*tile[2][kMostPanelRows])(const Tile& tile);
};

struct KernelTable {
  const char* name;
  int lanes;                                 // of one vector
  int panel_rows;                            // of a full tile
  int panel_vectors;                         // of a full tile
  LeafKernels leaves[numerics::kLeafCount];  // indexed by Leaf
  void (*write)(const float* nodes, int rows, int lanes, int width, int level_stride, int node_count,
                const Target& target);

  const LeafKernels& leaf(Leaf kind) const { return leaves[static_cast<int>(kind)]; }
};

const KernelTable& plain_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();

}  // namespace samebits::engine::cpu
