#include "io/safetensors_dtype.hpp"

namespace samebits::io {
namespace {

struct Known {
  std::string_view name;
  std::uint32_t bits;
};

// Those of safetensors 0.8; elements narrower than a byte are packed.
constexpr Known kKnown[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

}  // namespace

std::uint32_t safetensors_bits(std::string_view dtype) {
  for (const Known& known : kKnown) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

std::string safetensors_dtypes() {
  std::string names;
  for (const Known& known : kKnown) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

bool is_safetensors_float(std::string_view dtype) { return dtype.starts_with('F') || dtype == "BF16"; }

std::optional<DType> view_dtype(std::string_view dtype) {
  if (dtype == "BF16") return DType::bf16;
  if (dtype == "F16") return DType::f16;
  if (dtype == "F32") return DType::f32;
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
  return dtype == DType::bf16 ? "BF16" : dtype == DType::f16 ? "F16" : "F32";
}

}  // namespace samebits::io
