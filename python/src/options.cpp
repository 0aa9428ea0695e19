#include "options.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "samebits/error.hpp"
#include "samebits/words.hpp"

namespace samebits::python {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

// The command's words.
template <class Choice, std::size_t N>
Choice choose(const char* name, const std::string& word, const std::array<Word<Choice>, N>& words) {
  if (const auto choice = choice_of(words, word)) return *choice;
  std::string legal;
  for (const auto& [text, choice] : words) {
    legal += legal.empty() ? "" : text == words.back().text ? " or " : ", ";
    legal += text;
  }
  refuse(fmt::format("{} is '{}'; it is {}", name, word, legal));
}

constexpr std::array<Word<MemorySpace>, 3> kSpaceWords{
    {{"cpu", MemorySpace::host}, {"cuda", MemorySpace::cuda}, {"hip", MemorySpace::hip}}};

// "cuda" or "cuda:1"; nothing for another kind of device.
std::optional<int> index_of(const std::string& device, const std::string& kind) {
  if (device == kind) return 0;
  if (!device.starts_with(kind + ":")) return {};
  int index = -1;
  const char* const end = device.data() + device.size();
  const auto [read, problem] = std::from_chars(device.data() + kind.size() + 1, end, index);
  if (problem != std::errc() || read != end || index < 0) return {};
  return index;
}

}  // namespace

DownCut down_cut(const std::string& word) { return choose("down", word, kDownWords); }
WeightCut weight_cut(const std::string& word) { return choose("weights", word, kWeightWords); }
GradientReduction gradient_reduction(const char* name, const std::string& word) {
  return choose(name, word, kGradientWords);
}
CoverExchange cover_exchange(const std::string& word) { return choose("exchange", word, kCoverWords); }
Overlap overlap_of(const std::string& word) { return choose("overlap", word, kOverlapWords); }
MemorySpace memory_space(const std::string& word) { return choose("a space", word, kSpaceWords); }

std::shared_ptr<engine::Engine> engine_on(const std::string& device, int threads) {
  if (threads < 0) refuse(fmt::format("{} threads: a count is not negative, 0 is all", threads));
  if (device == "cpu") return make_cpu_engine({.threads = threads});
  if (const auto index = index_of(device, "cuda")) return make_cuda_engine({.device = *index});
  if (const auto index = index_of(device, "hip")) return make_hip_engine({.device = *index});
  refuse(fmt::format("device is '{}'; it is cpu, cuda, cuda:N, hip or hip:N", device));
}

Contract contract_of(const ContractOrText& given) {
  if (const auto* text = std::get_if<std::string>(&given)) return parse_contract(*text);
  return std::get<Contract>(given);
}

}  // namespace samebits::python
