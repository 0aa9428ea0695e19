// The dtypes of the safetensors format, by size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "samebits/view.hpp"

namespace samebits::io {

// Bits of one element; 0 for a name that the format does not know.
std::uint32_t safetensors_bits(std::string_view dtype);

// "BOOL, U8, ..."
std::string safetensors_dtypes();

// Whether the dtype holds floating-point numbers (of any width).
bool is_safetensors_float(std::string_view dtype);

// BF16, F16 and F32 are also dtypes of views.
std::optional<DType> view_dtype(std::string_view dtype);
std::string_view safetensors_name(DType dtype);

}  // namespace samebits::io
