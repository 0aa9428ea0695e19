// The CUDA engine of a build without CUDA: it says so.
#include "engine/engine.hpp"
#include "samebits/error.hpp"

namespace samebits {

std::shared_ptr<engine::Engine> make_cuda_engine(const CudaEngineOptions&) {
  throw Error(
      ErrorCode::environment,
      "this build has no cuda engine: build where nvcc 12.5 or newer is found (cmake -DSAMEBITS_CUDA=ON)");
}

CudaStatus cuda_status() {
  CudaStatus status;
  status.problem = "not built";
  return status;
}

}  // namespace samebits
