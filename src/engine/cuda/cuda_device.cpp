#include "engine/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/fp_environment.hpp"
#include "numerics/sigma.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {

CudaDeviceState::CudaDeviceState(int index) : index_(index) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for CUDA devices");
  if (index < 0 || index >= count) {
    throw Error(ErrorCode::environment, fmt::format("CUDA device {}: this machine has {}", index, count));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking for a device's properties");
  if (properties.major != 9 || properties.minor != 0) {
    throw Error(
        ErrorCode::environment,
        fmt::format("CUDA device {} is {} (compute capability {}.{}); the cuda engine runs on Hopper GPUs "
                    "(compute capability 9.0), the cpu engine anywhere",
                    index, properties.name, properties.major, properties.minor));
  }
  multiprocessors_ = properties.multiProcessorCount;
  std::copy(std::begin(properties.name), std::end(properties.name), name_);

  const FpEnvironment environment;
  std::vector<float> table;
  table.reserve(2 * 65536);
  for (const Sigma kind : {Sigma::exact, Sigma::cuda}) {
    for (std::uint32_t g = 0; g < 65536; ++g)
      table.push_back(numerics::sigma(kind, static_cast<numerics::Bf16>(g)));
  }
  const DeviceScope scope(index);
  sigma_ = DeviceBuffer(index, table.size() * sizeof(float));
  check(cudaMemcpy(sigma_.data(), table.data(), sigma_.bytes(), cudaMemcpyHostToDevice),
        "copying the table of sigma");
  check(cudaStreamSynchronize(nullptr), "copying the table of sigma");
}

}  // namespace samebits::engine::cuda
