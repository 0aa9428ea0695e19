// What the verbs on files share: the contract in a file's metadata, and how tensors are described.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "samebits/contract.hpp"
#include "samebits/safetensors.hpp"

namespace samebits::tools {

// Metadata keys of files that `samebits run` writes.
inline constexpr const char* kContractKey = "contract";  // the canonical string
inline constexpr const char* kContractNameKey = "contract_name";
inline constexpr const char* kFingerprintKey = "contract_fingerprint";

void put_contract(std::map<std::string, std::string>& metadata, const Contract& contract);

// The canonical string of the contract that a file was made under; empty for recordings of other software.
std::optional<std::string> contract_of(const SafetensorsFile& file);

// "bf16", "2x3x4", "scalar".
std::string dtype_text(const SafetensorsTensor& tensor);
std::string shape_text(const SafetensorsTensor& tensor);

}  // namespace samebits::tools
