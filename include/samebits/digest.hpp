// One 128-bit digest a tensor, the same on every machine (docs/numerics.md section 6).
#pragma once

#include <string>

#include "samebits/export.hpp"
#include "samebits/view.hpp"

namespace samebits {

// XXH3-128 of "bf16:32x4096\n" and the elements, row-major, little-endian; 32 hex digits. Host views of any
// stride.
SAMEBITS_API std::string digest(const ConstView& tensor);

}  // namespace samebits
