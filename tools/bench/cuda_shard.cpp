#include "bench/cuda_shard.hpp"

#include "bench/rotation.hpp"

namespace samebits::tools {
namespace {

std::size_t bytes_of(const ConstView& view) {
  return static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
}

// By rows a forward reads down's rows, and backward the columns of gate and up.
bool by_rows(const Weights& weights) { return weights.down_rows.data != nullptr; }

// Copies on the null stream, which streams of the bench do not wait for.
void finish_filling() { check(cudaStreamSynchronize(nullptr), "filling the bench's operands"); }

}  // namespace

View CudaTensors::make(std::int64_t rows, std::int64_t cols) {
  View view{nullptr, DType::bf16, rows, cols, cols, 1, device_};
  memory_.push_back(make_memory(bytes_of(view)));
  view.data = memory_.back().get();
  return view;
}

View CudaTensors::filled(const ConstView& host) {
  const View view = make(host.rows, host.cols);
  if (view.empty()) return view;
  const std::size_t element = size_of(host.dtype), width = static_cast<std::size_t>(host.cols) * element;
  const std::size_t pitch = host.rows > 1 ? static_cast<std::size_t>(host.row_stride) * element : width;
  check(cudaMemcpy2D(view.data, width, host.data, pitch, width, static_cast<std::size_t>(host.rows),
                     cudaMemcpyHostToDevice),
        "filling the bench's operands");
  return view;
}

View CudaTensors::copied(const ConstView& there) {
  const View view = make(there.rows, there.cols);
  check(cudaMemcpy(view.data, there.data, bytes_of(view), cudaMemcpyDeviceToDevice),
        "filling the bench's operands");
  return view;
}

CudaShard::CudaShard(const Weights& slices, const RankShard& shard, bool backward, Device device)
    : tensors_(device) {
  const bool rows = by_rows(slices);
  forward_bytes_ = static_cast<std::int64_t>(bytes_of(slices.gate) + bytes_of(slices.up) +
                                             bytes_of(rows ? slices.down_rows : slices.down));
  const std::int64_t count = rotation_for(forward_bytes_, cache_bytes_of(device), 1).sets;
  const std::int64_t hidden = slices.down.rows, held = shard.intermediate.length();
  for (std::int64_t i = 0; i < count; ++i) {
    ShardSet set;
    // Other addresses are all that the cache knows.
    const auto take = [&](ConstView Weights::*which) {
      set.weights.*which =
          i > 0 ? tensors_.copied(sets_.front().weights.*which) : tensors_.filled(slices.*which);
    };
    take(&Weights::gate);
    take(&Weights::up);
    if (backward || !rows) take(&Weights::down);
    if (rows) take(&Weights::down_rows);
    if (backward) {
      if (rows) {
        take(&Weights::gate_columns);
        take(&Weights::up_columns);
      }
      set.d_gate = tensors_.make(held, hidden);
      set.d_up = tensors_.make(held, hidden);
      set.d_down = tensors_.make(hidden, held);
    }
    sets_.push_back(set);
  }
  finish_filling();
}

CudaTokens::CudaTokens(const ConstView& x, const ConstView& dy, std::size_t sets, Device device)
    : tensors_(device) {
  for (std::size_t i = 0; i < sets; ++i) {
    TokenSet set;
    set.x = tensors_.filled(x);
    set.y = tensors_.make(x.rows, x.cols);
    if (dy.data != nullptr) {
      set.dy = tensors_.filled(dy);
      set.dx = tensors_.make(x.rows, x.cols);
    }
    sets_.push_back(set);
  }
  finish_filling();
}

std::int64_t cache_bytes_of(Device device) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index), "asking for the cache's size");
  return bytes;
}

}  // namespace samebits::tools
