// check.cpp as HIP: compiled with SAMEBITS_ROCM.
#include "gpu/check.cpp"  // NOLINT(bugprone-suspicious-include)
