// Stages whose covers lie in slices, on engines that know of none.
#pragma once

#include "engine/engine.hpp"
#include "samebits/layout.hpp"

namespace samebits::ffn {

// Whether the stage takes the cover as it is.
inline bool at_once(const engine::CoverView& cover, const engine::Block& block) {
  return cover.slices.empty() || block.takes_slices();
}

// body(rows of the result, their cover) of each slice that has any.
template <class Body>
void for_each_slice(const engine::CoverView& cover, const Body& body) {
  std::int64_t begin = 0;
  for (const engine::CoverSlice& slice : cover.slices) {
    if (slice.end > begin)
      body(Interval{begin, slice.end},
           engine::CoverView{slice.data, cover.nodes, cover.row_stride, cover.node_stride, {}});
    begin = slice.end;
  }
}

}  // namespace samebits::ffn
