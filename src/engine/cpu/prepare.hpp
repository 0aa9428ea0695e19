// Preparing operands: bf16 of any strides to the planes that a leaf reads. V is the vector type.
#pragma once

#include "engine/cpu/kernels.hpp"
#include "numerics/lane_group.hpp"

namespace samebits::engine::cpu {

// One vector of a prepared operand; returns whether it holds NaN or infinity.
template <class V, bool kMatrix>
inline bool put(typename V::F x, const Panel& out, std::int64_t at) {
  if constexpr (kMatrix) {
    const auto prepared = numerics::prepare_lanes<V>(x);
    V::store(out.value + at, prepared.significand);
    V::store(out.exponent + at, prepared.exponent);
    return prepared.special;
  } else {
    V::store(out.value + at, x);
    return false;
  }
}

// Lanes [inner, inner + count) of one outer index, the rest of the vector filled with +0.
template <class V>
inline typename V::F gather_some(const Source& s, std::int64_t outer, std::int64_t inner, int count) {
  std::uint16_t lanes[V::kLanes] = {};
  const std::uint16_t* const from = s.data + outer * s.outer_stride + inner * s.inner_stride;
  for (int i = 0; i < count; ++i) lanes[i] = from[i * s.inner_stride];
  return V::load_bf16(lanes);
}

// out[outer][stride] for `outer` x `inner` elements, each row filled with +0 to `padded` (a multiple of the
// lanes). `mark(outer, inner)` is told of vectors with NaN or infinity.
template <class V, bool kMatrix, class Mark>
inline void prepare(const Source& s, int outer, int inner, int padded, std::int64_t stride, const Panel& out,
                    const Mark& mark) {
  const int whole = inner / V::kLanes * V::kLanes;
  const bool pairs = s.outer_stride == 1 && s.inner_stride != 1 && s.inner_stride > 0 &&
                     s.inner_stride < (std::int64_t{1} << 24);
  int o = 0;
  if (pairs) {  // transposing: neighbours along `outer` are read two at a time
    const auto offsets = V::offsets(static_cast<std::int32_t>(s.inner_stride));
    for (; o + 1 < outer; o += 2) {
      for (int i = 0; i < whole; i += V::kLanes) {
        typename V::F first, second;
        V::gather_pairs(s.data + o + i * s.inner_stride, offsets, first, second);
        if (put<V, kMatrix>(first, out, o * stride + i)) mark(o, i);
        if (put<V, kMatrix>(second, out, (o + 1) * stride + i)) mark(o + 1, i);
      }
      for (int i = whole; i < padded; i += V::kLanes) {
        const int count = inner - i < 0 ? 0 : inner - i < V::kLanes ? inner - i : V::kLanes;
        if (put<V, kMatrix>(gather_some<V>(s, o, i, count), out, o * stride + i)) mark(o, i);
        if (put<V, kMatrix>(gather_some<V>(s, o + 1, i, count), out, (o + 1) * stride + i)) mark(o + 1, i);
      }
    }
  }
  for (; o < outer; ++o) {
    int i = 0;
    if (s.inner_stride == 1) {
      const std::uint16_t* const from = s.data + o * s.outer_stride;
      for (; i < whole; i += V::kLanes) {
        if (put<V, kMatrix>(V::load_bf16(from + i), out, o * stride + i)) mark(o, i);
      }
    }
    for (; i < padded; i += V::kLanes) {
      const int count = inner - i < 0 ? 0 : inner - i < V::kLanes ? inner - i : V::kLanes;
      if (put<V, kMatrix>(gather_some<V>(s, o, i, count), out, o * stride + i)) mark(o, i);
    }
  }
}

template <class V, bool kMatrix>
void prepare_rows(const Source& source, int rows, int k, const Panel& out) {
  const int padded_k = (k + 15) / 16 * 16;
  if constexpr (kMatrix) {
    for (int i = 0; i < rows * kGroups; ++i) out.special[i] = 0;
  }
  prepare<V, kMatrix>(source, rows, k, padded_k, kRowStride, out,
                      [&](int row, int at) { out.special[row * kGroups + at / 16] = 1; });
}

template <class V, bool kMatrix>
void prepare_lanes(const Source& source, int k, int lanes, int width, const Panel& out) {
  if constexpr (kMatrix) {
    const int padded_k = (k + 15) / 16 * 16;
    for (int i = 0; i < padded_k / 16; ++i) out.special[i] = 0;
    // A short last group is the contract's zero fill.
    for (int filled = k; filled < padded_k; ++filled) {
      for (int i = 0; i < width; i += V::kLanes) put<V, true>(V::zero(), out, filled * width + i);
    }
  }
  prepare<V, kMatrix>(source, k, lanes, width, width, out, [&](int at, int) { out.special[at / 16] = 1; });
}

}  // namespace samebits::engine::cpu
