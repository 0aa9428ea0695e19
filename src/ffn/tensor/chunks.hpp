// How the rows of a call are cut into chunks, from sizes alone: cover_reduction.cpp does it, traffic.cpp
// counts it.
#pragma once

#include <cstdint>

#include "samebits/plan.hpp"

namespace samebits::ffn {

// Rows of each chunk but the last, which may have fewer; all `rows` where they make one chunk.
std::int64_t chunk_rows(const ChunkRule& rule, std::int64_t rows);

// The longest chunk of any call of at most `most_rows`.
std::int64_t longest_chunk(const ChunkRule& rule, std::int64_t most_rows);

}  // namespace samebits::ffn
