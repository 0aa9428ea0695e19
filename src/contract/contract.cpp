// The public functions on contracts: numerics' text, with errors thrown.
#include "samebits/contract.hpp"

#include <fmt/format.h>

#include "numerics/contract_text.hpp"
#include "samebits/error.hpp"

namespace samebits {

Contract parse_contract(std::string_view text) {
  Contract contract;
  const numerics::ContractProblem problem = numerics::parse_contract_text(text, contract);
  if (problem.problem != nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("contract '{}': {}: {}", text.substr(0, 200),
                                                         problem.field.substr(0, 80), problem.problem));
  }
  return contract;
}

std::string canonical(const Contract& contract) {
  return std::string(numerics::canonical_text(contract).view());
}

std::string fingerprint(const Contract& contract) {
  return fmt::format("{:016x}", numerics::fingerprint_of(numerics::canonical_text(contract).view()));
}

std::string name_of(const Contract& contract) {
  for (const auto& preset : numerics::kPresets) {
    if (preset.contract == contract) return std::string(preset.name);
  }
  return canonical(contract);
}

std::vector<std::string_view> contract_presets() {
  std::vector<std::string_view> names;
  for (const auto& preset : numerics::kPresets) names.push_back(preset.name);
  return names;
}

}  // namespace samebits
