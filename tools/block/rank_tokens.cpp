#include "block/rank_tokens.hpp"

#include <algorithm>
#include <cstring>

namespace samebits::tools {

std::vector<Interval> tokens_of_rank(const TokenShards& shards, const Layout& layout, int rank) {
  const int cp_rank = rank / layout.tp, tp_rank = rank % layout.tp;
  const auto& context = shards.of_rank[static_cast<std::size_t>(cp_rank)];
  if (!layout.sequence_parallel) return context;
  const Interval slice = even_slice(shards.count(cp_rank), layout.tp, tp_rank);
  std::vector<Interval> mine;
  for_each_local(context, [&](const Interval& interval, const Interval& rows) {
    const std::int64_t begin = std::max(slice.begin, rows.begin), end = std::min(slice.end, rows.end);
    if (begin < end) mine.push_back({interval.begin + begin - rows.begin, interval.begin + end - rows.begin});
  });
  return mine;
}

void copy_rows(const View& to, const ConstView& from) {
  if (to.empty() || to.data == nullptr || from.data == nullptr) return;
  const std::size_t element = size_of(to.dtype);
  const std::int64_t at_once = to.contiguous() && from.contiguous() ? to.rows : 1;
  const std::size_t bytes = static_cast<std::size_t>(at_once * to.cols) * element;
  for (std::int64_t row = 0; row < to.rows; row += at_once) {
    std::memcpy(
        static_cast<unsigned char*>(to.data) + static_cast<std::size_t>(row * to.row_stride) * element,
        static_cast<const unsigned char*>(from.data) +
            static_cast<std::size_t>(row * from.row_stride) * element,
        bytes);
  }
}

HostTensor local_rows(const ConstView& whole, const std::vector<Interval>& tokens) {
  std::int64_t count = 0;
  for (const Interval& interval : tokens) count += interval.length();
  HostTensor local(count, whole.cols, whole.dtype);
  for_each_local(tokens, [&](const Interval& interval, const Interval& rows) {
    copy_rows(local.view().slice_rows(rows.begin, rows.end), whole.slice_rows(interval.begin, interval.end));
  });
  return local;
}

}  // namespace samebits::tools
