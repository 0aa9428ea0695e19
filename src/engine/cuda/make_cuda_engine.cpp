// The CUDA engine by its public names.
#include "engine/cuda/find_devices.hpp"

namespace samebits {

std::shared_ptr<engine::Engine> make_cuda_engine(const CudaEngineOptions& options) {
  return engine::cuda::make_engine(options.device);
}

CudaStatus cuda_status() { return engine::cuda::find_devices(); }

}  // namespace samebits
