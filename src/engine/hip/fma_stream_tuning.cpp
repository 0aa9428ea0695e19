// fma/stream_tuning.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma/stream_tuning.cpp"  // NOLINT(bugprone-suspicious-include)
