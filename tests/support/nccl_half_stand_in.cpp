// A library that says it is NCCL 2.18 and has little of it.
#include "transport/nccl_abi.hpp"

extern "C" {

samebits::transport::nccl::Result ncclGetVersion(int* version) {
  *version = 21803;
  return samebits::transport::nccl::kSuccess;
}

const char* ncclGetErrorString(samebits::transport::nccl::Result) { return "half of it"; }

}  // extern "C"
