// Options that Python gives as words.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "samebits/contract.hpp"
#include "samebits/engine.hpp"
#include "samebits/memory.hpp"
#include "samebits/plan.hpp"

namespace samebits::python {

// Error(invalid_argument) where the word is none of the legal ones, which it names.
DownCut down_cut(const std::string& word);
WeightCut weight_cut(const std::string& word);
GradientReduction gradient_reduction(const char* name, const std::string& word);
CoverExchange cover_exchange(const std::string& word);
Overlap overlap_of(const std::string& word);
MemorySpace memory_space(const std::string& word);

// "cpu", "cuda", "cuda:1", "hip", "hip:1": the engine there. `threads` counts those of a CPU engine; 0: all.
std::shared_ptr<engine::Engine> engine_on(const std::string& device, int threads);

// A text is parsed.
using ContractOrText = std::variant<Contract, std::string>;
Contract contract_of(const ContractOrText& given);

}  // namespace samebits::python
