#include "shared/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace samebits::tools {

void put_contract(std::map<std::string, std::string>& metadata, const Contract& contract) {
  metadata[kContractKey] = canonical(contract);
  metadata[kContractNameKey] = name_of(contract);
  metadata[kFingerprintKey] = fingerprint(contract);
}

std::optional<std::string> contract_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kContractKey);
  if (found == file.metadata().end() || !found->second.starts_with("samebits/")) return std::nullopt;
  return found->second;
}

std::string dtype_text(const SafetensorsTensor& tensor) {
  std::string text;
  for (const char c : tensor.dtype) text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string shape_text(const SafetensorsTensor& tensor) {
  return tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, "x"));
}

}  // namespace samebits::tools
