#include "ffn/tensor/chunks.hpp"

#include <algorithm>

namespace samebits::ffn {
namespace {

std::int64_t chunks_of(const ChunkRule& rule, std::int64_t rows) {
  return std::max<std::int64_t>(std::min(rule.most, rows / rule.least_rows), 1);
}

}  // namespace

std::int64_t chunk_rows(const ChunkRule& rule, std::int64_t rows) {
  const std::int64_t chunks = chunks_of(rule, rows);
  if (chunks == 1) return rows;
  const std::int64_t even = (rows + chunks - 1) / chunks;
  return std::min((even + rule.multiple - 1) / rule.multiple * rule.multiple, rows);
}

// Among the calls that make so many chunks, the longest has the longest ones.
std::int64_t longest_chunk(const ChunkRule& rule, std::int64_t most_rows) {
  std::int64_t longest = 0;
  for (std::int64_t chunks = chunks_of(rule, most_rows), rows = most_rows; chunks > 0; --chunks) {
    longest = std::max(longest, chunk_rows(rule, rows));
    rows = chunks * rule.least_rows - 1;
  }
  return longest;
}

}  // namespace samebits::ffn
