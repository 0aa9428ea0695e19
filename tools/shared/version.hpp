// The version of the command, which is the project's.
#pragma once

namespace samebits::tools {

inline constexpr const char* kVersion = SAMEBITS_VERSION;

}  // namespace samebits::tools
