#include "samebits/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "samebits/error.hpp"

namespace samebits {
namespace {

constexpr int kMaxDegree = 4096;

[[noreturn]] void refuse(std::string_view text) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("layout '{}': a layout is written tp2, tp4+cp2, tp2+cp2+sp, with degrees from 1 to {}",
                  text, kMaxDegree));
}

int read_degree(std::string_view part, std::string_view whole) {
  int degree = 0;
  const std::string_view digits = part.substr(2);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), degree);
  if (failure != std::errc{} || end != digits.data() + digits.size() || degree < 1 || degree > kMaxDegree)
    refuse(whole);
  return degree;
}

// Drops empty intervals and joins neighbours, so that a shard's cover is the smallest there is.
std::vector<Interval> joined(std::vector<Interval> intervals) {
  std::vector<Interval> out;
  for (const Interval& interval : intervals) {
    if (interval.length() == 0) continue;
    if (!out.empty() && out.back().end == interval.begin) {
      out.back().end = interval.end;
    } else {
      out.push_back(interval);
    }
  }
  return out;
}

}  // namespace

Layout parse_layout(std::string_view text) {
  Layout layout;
  bool seen_tp = false, seen_cp = false;
  std::string_view rest = text;
  while (true) {
    const std::size_t plus = rest.find('+');
    const std::string_view part = rest.substr(0, plus);
    if (part.starts_with("tp") && !seen_tp) {
      layout.tp = read_degree(part, text);
      seen_tp = true;
    } else if (part.starts_with("cp") && !seen_cp) {
      layout.cp = read_degree(part, text);
      seen_cp = true;
    } else if (part == "sp" && !layout.sequence_parallel) {
      layout.sequence_parallel = true;
    } else {
      refuse(text);
    }
    if (plus == std::string_view::npos) break;
    rest = rest.substr(plus + 1);
  }
  if (!seen_tp && !seen_cp) refuse(text);
  return layout;
}

std::string name_of(const Layout& layout) {
  std::string name = layout.tp > 1 || layout.cp == 1 ? fmt::format("tp{}", layout.tp) : std::string{};
  if (layout.cp > 1) name += fmt::format("{}cp{}", name.empty() ? "" : "+", layout.cp);
  if (layout.sequence_parallel) name += "+sp";
  return name;
}

Interval even_slice(std::int64_t count, int parts, int part) {
  // count * part may overflow; the quotient and the rest of count / parts do not.
  const std::int64_t whole = count / parts, rest = count % parts;
  const auto at = [&](std::int64_t index) { return whole * index + rest * index / parts; };
  return {at(part), at(part + 1)};
}

TokenShards TokenShards::contiguous(std::int64_t tokens, int cp) {
  TokenShards shards{tokens, {}};
  for (int rank = 0; rank < cp; ++rank) shards.of_rank.push_back(joined({even_slice(tokens, cp, rank)}));
  return shards;
}

TokenShards TokenShards::zigzag(std::int64_t tokens, int cp) {
  TokenShards shards{tokens, {}};
  for (int rank = 0; rank < cp; ++rank) {
    shards.of_rank.push_back(
        joined({even_slice(tokens, 2 * cp, rank), even_slice(tokens, 2 * cp, 2 * cp - 1 - rank)}));
  }
  return shards;
}

TokenShards TokenShards::of(std::vector<std::vector<Interval>> intervals) {
  TokenShards shards;
  std::vector<Interval> all;
  for (auto& of_rank : intervals) {
    for (const Interval& interval : of_rank) {
      if (interval.begin < 0 || interval.end < interval.begin) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("token shards: [{}, {}) is no interval", interval.begin, interval.end));
      }
    }
    shards.of_rank.push_back(joined(of_rank));
    const auto& kept = shards.of_rank.back();
    if (!std::is_sorted(kept.begin(), kept.end(), [](auto& a, auto& b) { return a.begin < b.begin; })) {
      throw Error(ErrorCode::invalid_argument, "token shards: the intervals of a rank must ascend");
    }
    all.insert(all.end(), kept.begin(), kept.end());
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t next = 0;
  for (const Interval& interval : all) {
    if (interval.begin != next) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("token shards: token {} is held {}", std::min(next, interval.begin),
                              interval.begin > next ? "by no rank" : "by two ranks"));
    }
    next = interval.end;
  }
  shards.tokens = next;
  return shards;
}

std::int64_t TokenShards::count(int cp_rank) const {
  std::int64_t count = 0;
  for (const Interval& interval : of_rank[static_cast<std::size_t>(cp_rank)]) count += interval.length();
  return count;
}

}  // namespace samebits
