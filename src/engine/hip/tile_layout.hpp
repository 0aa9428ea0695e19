// Where the threads of a tile's workgroup and the lanes of its matrix-core fragments stand: index arithmetic
// alone, for the kernel and for the host's emulation of it.
// A tile is 128 x 128 results: four waves of 64 lanes, 64 x 64 each, as 2 x 2 fragments of 32 x 32.
#pragma once

#include "numerics/hd.hpp"

namespace samebits::engine::hip {

inline constexpr int kWave = 64;
inline constexpr int kTile = 128;
inline constexpr int kTileThreads = 256;
inline constexpr int kTileChunk = 32;  // k of both operands in LDS at once
inline constexpr int kTilePitch =
    kTileChunk + 8;                         // elements of a line in LDS, so that lanes meet other banks
inline constexpr int kFragment = 32;        // rows, and columns
inline constexpr int kFragmentK = 8;        // one group of the gfx942 leaf
inline constexpr int kFragmentValues = 16;  // of a lane
inline constexpr int kSide = 2;             // fragments of a wave, down and across
inline constexpr int kShare = kSide * kSide * kFragmentValues;  // values of a thread

// Operands of v_mfma_f32_32x32x8_bf16: a lane gives four neighbouring k of one line, which is a row of the
// left operand or a column of the right one.
SAMEBITS_HD constexpr int fragment_line(int lane) { return lane % kFragment; }
SAMEBITS_HD constexpr int fragment_k(int lane) { return lane / kFragment * 4; }

// Its results: value i of a lane.
SAMEBITS_HD constexpr int result_row(int lane, int i) { return i / 4 * 8 + lane / kFragment * 4 + i % 4; }
SAMEBITS_HD constexpr int result_col(int lane) { return lane % kFragment; }

// First row and column of a thread's wave in the tile.
SAMEBITS_HD constexpr int wave_row(int thread) { return thread / kWave / 2 * kSide * kFragment; }
SAMEBITS_HD constexpr int wave_col(int thread) { return thread / kWave % 2 * kSide * kFragment; }

// Value v of a thread's share, fragment by fragment, in the tile.
SAMEBITS_HD constexpr int row_in_tile(int thread, int v) {
  return wave_row(thread) + v / (kSide * kFragmentValues) * kFragment +
         result_row(thread % kWave, v % kFragmentValues);
}
SAMEBITS_HD constexpr int col_in_tile(int thread, int v) {
  return wave_col(thread) + v / kFragmentValues % kSide * kFragment + result_col(thread % kWave);
}

// What a thread brings of a chunk of an operand: two parts of eight elements, along k where k is the unit
// stride, else along the outer index.
inline constexpr int kParts = 2, kPart = 8;
struct PartPlace {
  int outer, k;
};
SAMEBITS_HD constexpr PartPlace part_place(bool along_k, int thread, int part) {
  if (along_k) return {thread / 4 + part * 64, thread % 4 * kPart};
  return {thread % 16 * kPart, thread / 16 + part * 16};
}

}  // namespace samebits::engine::hip
