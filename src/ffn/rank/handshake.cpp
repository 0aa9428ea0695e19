#include "ffn/rank/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ffn/rank/or_abort.hpp"
#include "samebits/version.hpp"
#include "samebits/words.hpp"

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

constexpr std::size_t kFields = 10;
constexpr std::size_t kCompared = 9;  // of them; the last one may differ

constexpr const char* kBeside = "beside";

std::vector<Field> introduce(const PlanOptions& o, bool may_overlap) {
  std::vector<Field> fields(kFields);
  put(fields[0], "library version", kVersion);
  put(fields[1], "contract", canonical(o.contract));
  put(fields[2], "contract fingerprint", fingerprint(o.contract));
  put(fields[3], "shape", fmt::format("{}x{}", o.shape.hidden, o.shape.intermediate));
  put(fields[4], "layout", name_of(o.layout));
  put(fields[5], "most tokens", fmt::format("{} ({} a context rank)", o.max_tokens, o.max_rank_tokens));
  put(fields[6], "cuts",
      fmt::format("down {}, weights {}{}", word_of(kDownWords, o.down), word_of(kWeightWords, o.weights),
                  o.backward ? ", with backward" : ""));
  put(fields[7], "reductions",
      fmt::format("gradients {} in {} bytes, covers {} up to {} bytes, {} ranks a node{}{}",
                  word_of(kGradientWords, o.gradient_reduction), o.gradient_bytes,
                  word_of(kCoverWords, o.cover_exchange), o.one_shot_bytes, o.ranks_per_node,
                  o.control ? ", control" : "", o.check_replicas ? ", replicas checked" : ""));
  put(fields[8], "overlap",
      fmt::format("{}, at most {} chunks of {} rows, by {}", word_of(kOverlapWords, o.overlap), o.chunks.most,
                  o.chunks.least_rows, o.chunks.multiple));
  put(fields[9], "exchanges", may_overlap ? kBeside : "in turn");
  return fields;
}

View as_row(const void* data, std::size_t bytes, Device device) {
  const auto elements = static_cast<std::int64_t>(bytes / size_of(DType::bf16));
  void* const bytes_to_copy = const_cast<void*>(data);  // NOLINT: the view of a copy's source too
  return {bytes_to_copy, DType::bf16, 1, elements, elements, 1, device};
}

// What every rank has, rank behind rank.
std::vector<Field> gather_fields(Transport& transport, engine::Engine& engine,
                                 const std::vector<Field>& mine) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<Field> all(ranks * mine.size());
  const std::vector<std::size_t> bytes(ranks, mine.size() * sizeof(Field));
  const Device device = engine.device();
  const engine::Memory send = engine.allocate(bytes[0]), receive = engine.allocate(ranks * bytes[0]);
  engine.copy(as_row(send.get(), bytes[0], device), as_row(mine.data(), bytes[0], {}), {});
  transport.all_gather(send.get(), receive.get(), bytes, device.space, {});
  engine.copy(as_row(all.data(), ranks * bytes[0], {}), as_row(receive.get(), ranks * bytes[0], device), {});
  return all;
}

// The first `compared` of `count` fields a rank, each with the same of the first rank that has it by that
// name. Every rank compares all, so that all find the same difference.
void compare_fields(const std::vector<Field>& all, std::size_t count, std::size_t compared) {
  for (std::size_t rank = 1; rank < all.size() / count; ++rank) {
    for (std::size_t i = 0; i < compared; ++i) {
      const Field& mine = all[rank * count + i];
      std::size_t with = 0;
      while (std::memcmp(all[with * count + i].name, mine.name, sizeof mine.name) != 0) ++with;
      const Field& first = all[with * count + i];
      if (std::memcmp(first.value, mine.value, sizeof mine.value) == 0) continue;
      throw SharedError(ErrorCode::disagreement,
                        fmt::format("rank {} has {} {}, rank {} has {}", rank, std::string_view(mine.name),
                                    std::string_view(mine.value), with, std::string_view(first.value)));
    }
  }
}

}  // namespace

void agree(Transport& transport, engine::Engine& engine, std::span<const AgreedField> fields) {
  if (transport.size() == 1) return;
  std::vector<Field> mine(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) put(mine[i], fields[i].name, fields[i].value);
  compare_fields(gather_fields(transport, engine, mine), mine.size(), mine.size());
}

bool shake_hands(const PlanOptions& options, engine::Engine& engine) {
  Transport& transport = *options.transport;
  if (transport.size() == 1) return false;
  const bool may_overlap =
      options.overlap == Overlap::automatic && transport.concurrent(engine.device().space);
  const std::vector<Field> all = gather_fields(transport, engine, introduce(options, may_overlap));
  compare_fields(all, kFields, kCompared);
  for (std::size_t last = kCompared; last < all.size(); last += kFields) {
    if (std::string_view(all[last].value) != kBeside) return false;
  }
  return true;
}

}  // namespace samebits::ffn
