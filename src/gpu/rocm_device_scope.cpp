// device_scope.cpp as HIP: compiled with SAMEBITS_ROCM.
#include "gpu/device_scope.cpp"  // NOLINT(bugprone-suspicious-include)
