// The version, of which CMake and the Python package read theirs.
#pragma once

namespace samebits {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace samebits
