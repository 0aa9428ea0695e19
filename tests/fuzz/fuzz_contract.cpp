// Any text: it is a contract or it is not; where it is, its canonical text is whole and parses to the same
// contract.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "numerics/contract_text.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace samebits;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Contract contract;
  const numerics::ContractProblem problem = numerics::parse_contract_text(text, contract);
  if (problem.problem != nullptr) return 0;

  const numerics::ContractText canonical = numerics::canonical_text(contract);
  require(canonical.size + 1 < sizeof canonical.text);  // nothing was cut off
  Contract again;
  require(numerics::parse_contract_text(canonical.view(), again).problem == nullptr);
  require(again == contract);
  require(numerics::canonical_text(again).view() == canonical.view());
  return 0;
}
