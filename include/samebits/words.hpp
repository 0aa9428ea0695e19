// A plan's choices by the words that people give and read.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "samebits/plan.hpp"

namespace samebits {

template <class Choice>
struct Word {
  std::string_view text;
  Choice choice;
};

inline constexpr std::array<Word<DownCut>, 3> kDownWords{
    {{"auto", DownCut::automatic}, {"columns", DownCut::columns}, {"rows", DownCut::rows}}};
inline constexpr std::array<Word<WeightCut>, 3> kWeightWords{
    {{"auto", WeightCut::automatic}, {"once", WeightCut::once}, {"both", WeightCut::both}}};
inline constexpr std::array<Word<GradientReduction>, 3> kGradientWords{
    {{"auto", GradientReduction::automatic},
     {"gather", GradientReduction::gather_tokens},
     {"exchange", GradientReduction::exchange_covers}}};
inline constexpr std::array<Word<CoverExchange>, 3> kCoverWords{
    {{"auto", CoverExchange::automatic},
     {"one-shot", CoverExchange::one_shot},
     {"slice-owner", CoverExchange::slice_owner}}};
inline constexpr std::array<Word<Overlap>, 2> kOverlapWords{
    {{"auto", Overlap::automatic}, {"off", Overlap::off}}};

template <class Choice, std::size_t N>
constexpr std::string_view word_of(const std::array<Word<Choice>, N>& words, Choice choice) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const Word<Choice>& word) { return word.choice == choice; });
  return found == words.end() ? "?" : found->text;
}

template <class Choice, std::size_t N>
constexpr std::optional<Choice> choice_of(const std::array<Word<Choice>, N>& words, std::string_view text) {
  for (const Word<Choice>& word : words) {
    if (word.text == text) return word.choice;
  }
  return std::nullopt;
}

}  // namespace samebits
