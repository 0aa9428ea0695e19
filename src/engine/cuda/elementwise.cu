#include <algorithm>

#include "engine/cuda/elementwise.hpp"
#include "gpu/check.hpp"
#include "numerics/bf16.hpp"
#include "numerics/swiglu.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::SAMEBITS_GPU {
namespace {

using numerics::Bf16;

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 132 * 32;

unsigned blocks_for(std::int64_t elements) {
  return static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, kMostBlocks));
}

// A matrix on the device.
template <class T>
struct Plane {
  T* data;
  std::int64_t row_stride, col_stride;
  __device__ T& at(std::int64_t row, std::int64_t col) const {
    return data[row * row_stride + col * col_stride];
  }
};
Plane<const Bf16> plane(const ConstView& view) {
  return {static_cast<const Bf16*>(view.data), view.row_stride, view.col_stride};
}
Plane<Bf16> plane(const View& view) {
  return {static_cast<Bf16*>(view.data), view.row_stride, view.col_stride};
}

// body(row, col) of every element, threads along the columns.
template <class Body>
__device__ void for_each_element(std::int64_t rows, std::int64_t cols, const Body& body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * cols; i += step) {
    body(i / cols, i % cols);
  }
}

__global__ void activate_kernel(Swiglu kind, const float* sigma, Plane<const Bf16> gate, Plane<const Bf16> up,
                                Plane<Bf16> act, std::int64_t rows, std::int64_t cols) {
  for_each_element(rows, cols, [&](std::int64_t row, std::int64_t col) {
    const Bf16 g = gate.at(row, col);
    act.at(row, col) = numerics::swiglu(kind, g, up.at(row, col), __ldg(sigma + g));
  });
}

__global__ void gradient_kernel(Swiglu kind, const float* sigma, Plane<const Bf16> d_act,
                                Plane<const Bf16> gate, Plane<const Bf16> up, Plane<Bf16> d_gate,
                                Plane<Bf16> d_up, std::int64_t rows, std::int64_t cols) {
  for_each_element(rows, cols, [&](std::int64_t row, std::int64_t col) {
    const Bf16 g = gate.at(row, col);
    const auto d = numerics::swiglu_gradient(kind, d_act.at(row, col), g, up.at(row, col), __ldg(sigma + g));
    d_gate.at(row, col) = d.gate;
    d_up.at(row, col) = d.up;
  });
}

template <class Word>
__global__ void copy_kernel(Plane<Word> to, Plane<const Word> from, std::int64_t rows, std::int64_t cols) {
  for_each_element(rows, cols,
                   [&](std::int64_t row, std::int64_t col) { to.at(row, col) = from.at(row, col); });
}

template <class Word>
void launch_copy(const View& to, const ConstView& from, cudaStream_t stream) {
  copy_kernel<Word><<<blocks_for(from.elements()), kThreads, 0, stream>>>(
      {static_cast<Word*>(to.data), to.row_stride, to.col_stride},
      {static_cast<const Word*>(from.data), from.row_stride, from.col_stride}, from.rows, from.cols);
  check_launch("copy");
}

template <class Word>
__global__ void zero_kernel(Plane<Word> out, std::int64_t rows, std::int64_t cols) {
  for_each_element(rows, cols, [&](std::int64_t row, std::int64_t col) { out.at(row, col) = Word{}; });
}

}  // namespace

void activate(const Contract& contract, const float* sigma, const ConstView& gate, const ConstView& up,
              const View& act, cudaStream_t stream) {
  if (act.empty()) return;
  activate_kernel<<<blocks_for(act.elements()), kThreads, 0, stream>>>(
      contract.swiglu, sigma, plane(gate), plane(up), plane(act), act.rows, act.cols);
  check_launch("activation");
}

void activate_gradient(const Contract& contract, const float* sigma, const ConstView& d_act,
                       const ConstView& gate, const ConstView& up, const View& d_gate, const View& d_up,
                       cudaStream_t stream) {
  if (d_up.empty()) return;
  gradient_kernel<<<blocks_for(d_up.elements()), kThreads, 0, stream>>>(contract.swiglu, sigma, plane(d_act),
                                                                        plane(gate), plane(up), plane(d_gate),
                                                                        plane(d_up), d_up.rows, d_up.cols);
  check_launch("gradient of the activation");
}

void fill_zero(const View& out, cudaStream_t stream) {
  if (out.empty()) return;
  if (out.dtype == DType::f32) {
    zero_kernel<float><<<blocks_for(out.elements()), kThreads, 0, stream>>>(
        {static_cast<float*>(out.data), out.row_stride, out.col_stride}, out.rows, out.cols);
  } else {
    zero_kernel<Bf16><<<blocks_for(out.elements()), kThreads, 0, stream>>>(plane(out), out.rows, out.cols);
  }
  check_launch("zeros");
}

void copy_strided(const View& to, const ConstView& from, cudaStream_t stream) {
  if (from.empty()) return;
  if (size_of(from.dtype) == 4) {
    launch_copy<std::uint32_t>(to, from, stream);
  } else {
    launch_copy<std::uint16_t>(to, from, stream);
  }
}

}  // namespace samebits::engine::SAMEBITS_GPU
