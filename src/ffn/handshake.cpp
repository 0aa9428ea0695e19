#include "ffn/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/version.hpp"

namespace samebits::ffn {
namespace {

constexpr std::size_t kValue = 192;

struct Field {
  char name[32] = {};
  char value[kValue] = {};
};

void put(Field& field, std::string_view name, const std::string& value) {
  std::memcpy(field.name, name.data(), std::min(name.size(), sizeof field.name - 1));
  std::memcpy(field.value, value.data(), std::min(value.size(), sizeof field.value - 1));
}

constexpr std::size_t kFields = 8;

std::vector<Field> introduce(const PlanOptions& o, DownCut down) {
  std::vector<Field> fields(kFields);
  put(fields[0], "library version", kVersion);
  put(fields[1], "contract", canonical(o.contract));
  put(fields[2], "contract fingerprint", fingerprint(o.contract));
  put(fields[3], "shape", fmt::format("{}x{}", o.shape.hidden, o.shape.intermediate));
  put(fields[4], "layout", name_of(o.layout));
  put(fields[5], "most tokens", fmt::format("{} ({} a context rank)", o.max_tokens, o.max_rank_tokens));
  put(fields[6], "down",
      fmt::format("{}{}", down == DownCut::rows ? "rows" : "columns", o.backward ? " with backward" : ""));
  put(fields[7], "reductions",
      fmt::format("gradients {}, covers {} up to {} bytes{}", static_cast<int>(o.gradient_reduction),
                  static_cast<int>(o.cover_exchange), o.one_shot_bytes, o.control ? ", control" : ""));
  return fields;
}

}  // namespace

void shake_hands(const PlanOptions& options, DownCut down, Transport& transport) {
  if (transport.size() == 1 || !transport.reaches(MemorySpace::host)) return;
  const std::vector<Field> mine = introduce(options, down);
  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<Field> all(ranks * kFields);
  const std::vector<std::size_t> bytes(ranks, kFields * sizeof(Field));
  transport.all_gather(mine.data(), all.data(), bytes, MemorySpace::host, {});
  // Every rank compares with rank 0, so that all find the same difference.
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < kFields; ++i) {
      const Field &first = all[i], &other = all[rank * kFields + i];
      if (std::memcmp(&first, &other, sizeof(Field)) == 0) continue;
      throw Error(ErrorCode::disagreement,
                  fmt::format("rank {} has {} {}, rank 0 has {}", rank, std::string_view(other.name),
                              std::string_view(other.value), std::string_view(first.value)));
    }
  }
}

}  // namespace samebits::ffn
