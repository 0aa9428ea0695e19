// Builds the table of one instruction set from the templates. Included by kernels_*.cpp alone.
//
// Those files are compiled for processors that this one may not be, so nothing in them may leave a function
// that the linker could choose for everyone: only templates on V, and no inline function of anybody else.
#pragma once

#include "engine/cpu/prepare.hpp"
#include "engine/cpu/tile.hpp"

namespace samebits::engine::cpu {

template <class V, int C, int R>
void fill_tiles(KernelTable& table) {
  if constexpr (R > 0) {
    table.fma.tile[C - 1][R - 1] = fma_tile<V, R, C>;
    table.sm90.tile[C - 1][R - 1] = sm90_tile<V, R, C>;
    table.gfx942.tile[C - 1][R - 1] = gfx942_tile<V, R, C>;
    fill_tiles<V, C, R - 1>(table);
  }
}

template <class V>
KernelTable kernel_table(const char* name) {
  KernelTable table{};
  table.name = name;
  table.lanes = V::kLanes;
  table.panel_rows = V::kPanelRows;
  table.panel_vectors = V::kPanelVectors;
  table.fma.prepare_rows = prepare_rows<V, false>;
  table.fma.prepare_lanes = prepare_lanes<V, false>;
  table.sm90.prepare_rows = table.gfx942.prepare_rows = prepare_rows<V, true>;
  table.sm90.prepare_lanes = table.gfx942.prepare_lanes = prepare_lanes<V, true>;
  fill_tiles<V, 1, V::kPanelRows>(table);
  if constexpr (V::kPanelVectors == 2) fill_tiles<V, 2, V::kPanelRows>(table);
  table.write = write_tile<V>;
  return table;
}

}  // namespace samebits::engine::cpu
