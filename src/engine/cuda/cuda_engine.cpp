// The engine of a GPU: its memory, copies and queues, and the blocks prepared on it. Compiled as CUDA, and as
// HIP (engine/hip).
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "engine/cuda/cuda_block.hpp"
#include "engine/cuda/device_kind.hpp"
#include "engine/cuda/elementwise.hpp"
#include "engine/cuda/find_devices.hpp"
#include "engine/cuda/finish.hpp"
#include "engine/engine.hpp"
#include "gpu/check.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/device_scope.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::SAMEBITS_GPU {
namespace {

void free_device(void* data) { static_cast<void>(cudaFree(data)); }
void destroy_stream(void* stream) { static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream))); }

void destroy_event(void* event) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event))); }

// Whether the runtime's two-dimensional copy takes it: rows that do not overlap, and are not too far apart.
bool is_pitched(const ConstView& view) {
  constexpr std::int64_t kMostPitch = (std::int64_t{1} << 31) - 1;  // bytes
  return view.rows_packed() && (view.rows <= 1 || (view.row_stride >= view.cols &&
                                                   view.row_stride <= kMostPitch / std::int64_t{4}));
}

class CudaEngine final : public Engine {
 public:
  explicit CudaEngine(int device) : state_(std::make_shared<CudaDeviceState>(device)) {}

  std::string name() const override {
    return fmt::format("{} ({}, device {})", kEngineName, state_->name(), state_->index());
  }
  Device device() const override { return {kMemorySpace, state_->index()}; }

  std::unique_ptr<Block> prepare(const Problem& problem) override {
    return std::make_unique<CudaBlock>(problem, state_);
  }

  Memory allocate(std::size_t bytes) override {
    return {allocate_device(state_->index(), bytes), free_device};
  }

  void copy(const View& to, const ConstView& from, Queue queue) override {
    if (from.empty()) return;
    const DeviceScope scope(state_->index());
    const auto stream = static_cast<cudaStream_t>(queue.handle);
    const bool to_host = to.device.space == MemorySpace::host,
               from_host = from.device.space == MemorySpace::host;
    if (!to_host && !from_host) {
      if (is_pitched(to) && is_pitched(from)) {
        copy_rows(to, from, cudaMemcpyDeviceToDevice, stream);
      } else {
        copy_strided(to, from, stream);
      }
      return;
    }
    if (!to.rows_packed() || !from.rows_packed()) {
      throw Error(ErrorCode::invalid_argument, "a copy between host and device memory wants packed rows");
    }
    copy_rows(to, from, cudaMemcpyDefault, stream);
    check(cudaStreamSynchronize(stream), "copying between host and device");
  }

  int most_finish_nodes() const override { return kMostFinishNodes; }

  OwnedQueue make_queue() override {
    const DeviceScope scope(state_->index());
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    return {stream, destroy_stream};
  }

  OwnedEvent make_event() override {
    const DeviceScope scope(state_->index());
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    return {event, destroy_event};
  }
  void record(Queue queue, void* event) override {
    const DeviceScope scope(state_->index());
    check(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(queue.handle)),
          "recording an event");
  }
  void wait(Queue queue, void* event) override {
    const DeviceScope scope(state_->index());
    check(cudaStreamWaitEvent(static_cast<cudaStream_t>(queue.handle), static_cast<cudaEvent_t>(event), 0),
          "ordering a stream behind another");
  }

  void synchronize(Queue queue) override {
    const DeviceScope scope(state_->index());
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(queue.handle)), "waiting for a stream");
  }

  void require_reachable(const char* name, const ConstView& view) override {
    AddressPlace place;
    check(place_of(view.data, place), "asking where an address lies");
    if (!place.device && !place.managed) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is called device memory and lies in host memory: copy it to {} device {}",
                              name, kRuntimeName, state_->index()));
    }
    if (!place.managed && place.index != state_->index()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} lies on {} device {}, the plan's engine is on device {}", name,
                              kRuntimeName, place.index, state_->index()));
    }
  }

 private:
  static void copy_rows(const View& to, const ConstView& from, cudaMemcpyKind kind, cudaStream_t stream) {
    const std::size_t size = size_of(from.dtype), width = static_cast<std::size_t>(from.cols) * size;
    const auto pitch = [&](std::int64_t row_stride) {
      return from.rows > 1 ? static_cast<std::size_t>(row_stride) * size : width;
    };
    check(cudaMemcpy2DAsync(to.data, pitch(to.row_stride), from.data, pitch(from.row_stride), width,
                            static_cast<std::size_t>(from.rows), kind, stream),
          "copying");
  }

  std::shared_ptr<const CudaDeviceState> state_;
};

}  // namespace

std::shared_ptr<Engine> make_engine(int device) { return std::make_shared<CudaEngine>(device); }

GpuStatus find_devices() {
  GpuStatus status;
  status.built = true;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) status.runtime = dotted(version);
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) status.driver = dotted(version);
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    status.problem = no_devices(status.driver, code);
    return status;
  }
  bool usable = false;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    status.devices.push_back({index, properties.name, properties.major, properties.minor,
                              properties.totalGlobalMem, kind_of(properties)});
    usable = usable || is_served(properties);
  }
  if (!usable) status.problem = count == 0 ? fmt::format("no {} device", kRuntimeName) : kNoneServed;
  return status;
}

}  // namespace samebits::engine::SAMEBITS_GPU
