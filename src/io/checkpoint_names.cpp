#include "io/checkpoint_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <vector>

#include "io/message.hpp"

namespace samebits::io {
namespace {

constexpr std::string_view kLayers = "layers.";
constexpr std::string_view kMlp = ".mlp.";

// In this order, when several are there.
constexpr std::string_view kPreferred[] = {"model.", "model.language_model.", "language_model.model."};

// What a gated block has, fused or of experts; fc1 and fc2 of a vision tower make no candidate.
bool is_gated_part(std::string_view rest) {
  for (const std::string_view part : {"gate_proj.", "up_proj.", "down_proj.", "gate_up_proj.", "experts."}) {
    if (rest.starts_with(part)) return true;
  }
  return false;
}

}  // namespace

std::optional<MlpName> parse_mlp_name(std::string_view name) {
  for (std::size_t at = name.find(kLayers); at != std::string_view::npos; at = name.find(kLayers, at + 1)) {
    if (at > 0 && name[at - 1] != '.') continue;
    const std::string_view tail = name.substr(at + kLayers.size());
    MlpName parsed{name.substr(0, at), 0, {}};
    const auto [end, failure] = std::from_chars(tail.data(), tail.data() + tail.size(), parsed.layer);
    if (failure != std::errc{} || parsed.layer < 0 || (tail[0] == '0' && end != tail.data() + 1)) continue;
    const std::string_view after = tail.substr(static_cast<std::size_t>(end - tail.data()));
    if (!after.starts_with(kMlp)) continue;
    parsed.rest = after.substr(kMlp.size());
    return parsed;
  }
  return std::nullopt;
}

LanguageModel find_language_model(std::span<const std::string> names, const std::string& listing) {
  std::map<std::string, std::set<std::int64_t>, std::less<>> candidates;
  for (const std::string& name : names) {
    const std::optional<MlpName> parsed = parse_mlp_name(name);
    if (parsed && is_gated_part(parsed->rest)) candidates[std::string(parsed->prefix)].insert(parsed->layer);
  }
  if (candidates.empty()) {
    fail_file(listing, fmt::format("holds no tensor '...layers.N.mlp.gate_proj.weight'{}",
                                   names.empty() ? "; it is empty"
                                                 : fmt::format("; it holds '{}' for instance",
                                                               printable(names.front()))));
  }
  for (const std::string_view preferred : kPreferred) {
    const auto found = candidates.find(preferred);
    if (found != candidates.end()) return {found->first, found->second};
  }
  if (candidates.size() > 1) {
    const auto first = candidates.begin();
    fail_file(listing,
              fmt::format("holds several models: layers stand under '{}' and under '{}'; a checkpoint of one "
                          "language model is legal, or one that stands under 'model.'",
                          printable(first->first), printable(std::next(first)->first)));
  }
  return {candidates.begin()->first, candidates.begin()->second};
}

std::string layers_text(const std::set<std::int64_t>& layers) {
  if (layers.size() == 1) return fmt::format("1 layer, {}", *layers.begin());
  const std::int64_t first = *layers.begin(), last = *layers.rbegin();
  const bool gaps = last - first + 1 != static_cast<std::int64_t>(layers.size());
  return fmt::format("{} layers, {} to {}{}", layers.size(), first, last, gaps ? " with gaps" : "");
}

}  // namespace samebits::io
