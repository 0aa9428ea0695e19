#include "options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <utility>

#include "samebits/error.hpp"

namespace samebits::python {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

template <class Value>
Value choose(const char* name, const std::string& word,
             std::initializer_list<std::pair<const char*, Value>> words) {
  std::string legal;
  for (const auto& [text, value] : words) {
    if (word == text) return value;
    legal += legal.empty() ? "" : text == (words.end() - 1)->first ? " or " : ", ";
    legal += text;
  }
  refuse(fmt::format("{} is '{}'; it is {}", name, word, legal));
}

}  // namespace

DownCut down_cut(const std::string& word) {
  return choose<DownCut>(
      "down", word, {{"auto", DownCut::automatic}, {"columns", DownCut::columns}, {"rows", DownCut::rows}});
}
WeightCut weight_cut(const std::string& word) {
  return choose<WeightCut>(
      "weights", word,
      {{"auto", WeightCut::automatic}, {"once", WeightCut::once}, {"both", WeightCut::both}});
}
GradientReduction gradient_reduction(const char* name, const std::string& word) {
  return choose<GradientReduction>(name, word,
                                   {{"auto", GradientReduction::automatic},
                                    {"gather", GradientReduction::gather_tokens},
                                    {"covers", GradientReduction::exchange_covers}});
}
CoverExchange cover_exchange(const std::string& word) {
  return choose<CoverExchange>("exchange", word,
                               {{"auto", CoverExchange::automatic},
                                {"one-shot", CoverExchange::one_shot},
                                {"slice-owner", CoverExchange::slice_owner}});
}
Overlap overlap_of(const std::string& word) {
  return choose<Overlap>("overlap", word, {{"auto", Overlap::automatic}, {"off", Overlap::off}});
}
MemorySpace memory_space(const std::string& word) {
  return choose<MemorySpace>(
      "a space", word, {{"cpu", MemorySpace::host}, {"cuda", MemorySpace::cuda}, {"hip", MemorySpace::hip}});
}

const char* word_of(DownCut cut) {
  return cut == DownCut::columns ? "columns" : cut == DownCut::rows ? "rows" : "auto";
}
const char* word_of(MemorySpace space) {
  return space == MemorySpace::host ? "cpu" : space == MemorySpace::cuda ? "cuda" : "hip";
}
std::string word_of(const Device& device) {
  if (device.space == MemorySpace::host) return "cpu";
  return fmt::format("{}:{}", word_of(device.space), device.index);
}

std::shared_ptr<engine::Engine> engine_on(const std::string& device, int threads) {
  if (threads < 0) refuse(fmt::format("{} threads: a count is not negative, 0 is all", threads));
  if (device == "cpu") return make_cpu_engine({.threads = threads});
  if (device == "cuda") return make_cuda_engine();
  const std::string prefix = "cuda:";
  if (device.starts_with(prefix)) {
    int index = -1;
    const char* end = device.data() + device.size();
    const auto [read, problem] = std::from_chars(device.data() + prefix.size(), end, index);
    if (problem == std::errc() && read == end && index >= 0) return make_cuda_engine({.device = index});
  }
  refuse(fmt::format("device is '{}'; it is cpu, cuda or cuda:N", device));
}

Contract contract_of(const ContractOrText& given) {
  if (const auto* text = std::get_if<std::string>(&given)) return parse_contract(*text);
  return std::get<Contract>(given);
}

}  // namespace samebits::python
