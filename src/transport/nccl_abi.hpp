// The binary interface of NCCL 2.18 and later, as far as it is used; RCCL has the same. Our own words, so
// that a build needs no header of theirs.
#pragma once

#include <climits>
#include <cstddef>

namespace samebits::transport::nccl {

struct Comm;           // ncclComm, a rank's end of a group
using Stream = void*;  // cudaStream_t or hipStream_t

struct UniqueId {
  char bytes[128];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int { kInt8 = 0, kUint8 = 1 };

// ncclConfig_t as of 2.18. A later library takes the fields that it has beyond these as not given.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeefU;
  unsigned int version = 21800;
  int blocking = 1;
  int cga_cluster_size = INT_MIN;  // INT_MIN and nullptr: not given
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

}  // namespace samebits::transport::nccl
