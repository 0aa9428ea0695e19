// Builds the table of one instruction set from the templates. Included by kernels_*.cpp alone.
//
// Those files are compiled for processors that this one may not be, so nothing in them may leave a function
// that the linker could choose for everyone: only templates on V, and no inline function of anybody else.
#pragma once

#include "engine/cpu/prepare.hpp"
#include "engine/cpu/tile.hpp"

namespace samebits::engine::cpu {

// The tiles of one leaf: Kernel<V, R, C>::run is the one of R rows and C vectors.
template <class V, template <class, int, int> class Kernel, int C, int R>
void fill_tiles(LeafKernels& leaf) {
  if constexpr (R > 0) {
    leaf.tile[C - 1][R - 1] = Kernel<V, R, C>::run;
    fill_tiles<V, Kernel, C, R - 1>(leaf);
  }
}

template <class V, template <class, int, int> class Kernel, bool kMatrix>
LeafKernels leaf_kernels() {
  LeafKernels leaf{};
  leaf.prepare_rows = prepare_rows<V, kMatrix>;
  leaf.prepare_lanes = prepare_lanes<V, kMatrix>;
  fill_tiles<V, Kernel, 1, V::kPanelRows>(leaf);
  if constexpr (V::kPanelVectors == 2) fill_tiles<V, Kernel, 2, V::kPanelRows>(leaf);
  return leaf;
}

template <class V>
KernelTable kernel_table(const char* name) {
  KernelTable table{};
  table.name = name;
  table.lanes = V::kLanes;
  table.panel_rows = V::kPanelRows;
  table.panel_vectors = V::kPanelVectors;
  table.write = write_tile<V>;
  // One line a leaf: its tiles, and whether its operands are prepared as significands and exponents.
  table.leaves[static_cast<int>(Leaf::fma)] = leaf_kernels<V, FmaTile, false>();
  table.leaves[static_cast<int>(Leaf::sm90)] = leaf_kernels<V, Sm90Tile, true>();
  table.leaves[static_cast<int>(Leaf::gfx942)] = leaf_kernels<V, Gfx942Tile, true>();
  return table;
}

}  // namespace samebits::engine::cpu
