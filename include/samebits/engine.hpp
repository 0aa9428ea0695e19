// An engine makes the nodes of the tree on one kind of processor. Plans hold one; which one changes no bit.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "samebits/export.hpp"

namespace samebits {

namespace engine {
class Engine;
}

enum class Isa { automatic, plain, avx2, avx512 };

struct CpuEngineOptions {
  int threads = 0;  // 0: as many as the process may run on
  Isa isa = Isa::automatic;
};

// Throws Error(refused) when this processor lacks the instruction set asked for.
SAMEBITS_API std::shared_ptr<engine::Engine> make_cpu_engine(const CpuEngineOptions& options = {});

struct CudaEngineOptions {
  int device = 0;  // index, as CUDA counts
};

// On an NVIDIA Hopper GPU (compute capability 9.0). Throws Error(environment) where this build has no CUDA,
// where no driver or device answers, and for a device of another kind.
SAMEBITS_API std::shared_ptr<engine::Engine> make_cuda_engine(const CudaEngineOptions& options = {});

// A GPU as its runtime describes it.
struct GpuDevice {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::size_t memory_bytes = 0;
  std::string kind;  // "compute capability 9.0", "gfx942"
};
using CudaDevice = GpuDevice;
using HipDevice = GpuDevice;

// What an engine of GPUs finds on this machine.
struct GpuStatus {
  bool built = false;
  std::string runtime;  // "13.0"
  std::string driver;   // the newest runtime that the driver serves; empty without a driver
  std::string problem;  // why no device can be used; empty when one can
  std::vector<GpuDevice> devices;
};
using CudaStatus = GpuStatus;
using HipStatus = GpuStatus;
SAMEBITS_API CudaStatus cuda_status();

struct HipEngineOptions {
  int device = 0;  // index, as HIP counts
};

// On an AMD MI300X (gfx942). Throws Error(environment) where this build has no HIP, where no driver or device
// answers, and for a device of another kind.
SAMEBITS_API std::shared_ptr<engine::Engine> make_hip_engine(const HipEngineOptions& options = {});
SAMEBITS_API HipStatus hip_status();

// "avx512", "avx2" or "plain": what `automatic` means on this processor.
SAMEBITS_API std::string best_isa_name();

}  // namespace samebits
