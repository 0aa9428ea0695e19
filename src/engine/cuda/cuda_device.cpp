#include "engine/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/cuda/device_kind.hpp"
#include "engine/fp_environment.hpp"
#include "gpu/check.hpp"
#include "gpu/device_scope.hpp"
#include "numerics/sigma.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::SAMEBITS_GPU {

CudaDeviceState::CudaDeviceState(int index) : index_(index) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for devices");
  if (index < 0 || index >= count) {
    throw Error(ErrorCode::environment,
                fmt::format("{} device {}: this machine has {}", kRuntimeName, index, count));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking for a device's properties");
  if (!is_served(properties)) {
    throw Error(ErrorCode::environment,
                fmt::format("{} device {} is {} ({}); the {} engine runs on {}, the cpu engine anywhere",
                            kRuntimeName, index, properties.name, kind_of(properties), kEngineName, kServed));
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

}  // namespace samebits::engine::SAMEBITS_GPU
