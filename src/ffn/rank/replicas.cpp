#include "ffn/rank/replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "ffn/rank/handshake.hpp"
#include "ffn/rank/workspace.hpp"
#include "numerics/contract_text.hpp"

namespace samebits::ffn {
namespace {

constexpr std::int64_t kBlockBytes = 4 << 20;

View as_one_row(const View& packed) {
  View row = packed;
  row.rows = packed.rows > 0 ? 1 : 0;
  row.cols = row.row_stride = packed.elements();
  return row;
}

// Of the elements, wherever they lie: block by block of rows, a block's hash behind that of those before.
std::string digest_of(const ConstView& view, engine::Engine& engine, Queue queue) {
  const auto row_bytes = static_cast<std::int64_t>(checked_bytes(1, view.cols, size_of(view.dtype)));
  const std::int64_t step = std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                                     std::max<std::int64_t>(view.rows, 1));
  const auto bytes = static_cast<std::size_t>(step * row_bytes);
  std::vector<char> block(bytes);
  const engine::Memory staged = engine.allocate(std::max<std::size_t>(bytes, 1));
  std::array<std::uint64_t, 2> hashes{};
  for (std::int64_t row = 0; row < view.rows && row_bytes > 0; row += step) {
    const ConstView rows = view.slice_rows(row, std::min(row + step, view.rows));
    const View here{staged.get(), view.dtype, rows.rows, rows.cols, rows.cols, 1, engine.device()};
    const View host{block.data(), view.dtype, rows.rows, rows.cols, rows.cols, 1, {}};
    engine.copy(here, rows, queue);
    engine.copy(as_one_row(host), as_one_row(here), queue);
    engine.synchronize(queue);
    hashes[1] = numerics::fingerprint_of({block.data(), static_cast<std::size_t>(rows.rows * row_bytes)});
    hashes[0] = numerics::fingerprint_of({reinterpret_cast<const char*>(hashes.data()), sizeof hashes});
  }
  return fmt::format("{} x {}, digest {:016x}", view.rows, view.cols, hashes[0]);
}

std::string whose(const Ranks& ranks, CopiedOver over) {
  switch (over) {
    case CopiedOver::tensor:
      return fmt::format("context rank {}", ranks.cp_rank);
    case CopiedOver::context:
      return fmt::format("tensor rank {}", ranks.tp_rank);
    default:
      return fmt::format("rank {}", ranks.all->rank());
  }
}

}  // namespace

void compare_replicas(const Ranks& ranks, engine::Engine& engine, const std::string& tokens,
                      std::span<const Replica> replicas, Queue queue) {
  if (ranks.all->size() == 1) return;
  std::vector<std::string> names;
  names.reserve(replicas.size());
  std::vector<AgreedField> fields{
      {"tokens", fmt::format("{:.120} (digest {:016x})", tokens, numerics::fingerprint_of(tokens))}};
  for (const Replica& replica : replicas) {
    names.push_back(fmt::format("{} of {}", replica.name, whose(ranks, replica.over)));
    const bool compared = replica.over != CopiedOver::nobody;
    fields.push_back({names.back(), compared ? digest_of(replica.view, engine, queue) : std::string("-")});
  }
  agree(*ranks.all, engine, fields);
}

}  // namespace samebits::ffn
