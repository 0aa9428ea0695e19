// device_buffer.cpp as HIP: compiled with SAMEBITS_ROCM.
#include "gpu/device_buffer.cpp"  // NOLINT(bugprone-suspicious-include)
