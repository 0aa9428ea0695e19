// What becomes of a tile's roots: stored as nodes, or fused into the activation or its gradient. A warpgroup
// holds 64 rows as wgmma lays accumulators out: a thread has, of every eight columns, two neighbours in two
// rows. `stage` writes chunks of columns into stages of the ring, from where the clerk `send`s them; `store`
// writes element by element, where the copy engine cannot.
//
// Chunks are a loop that is not written out, over accumulators that move down: written out, an epilogue is
// longer than the instruction cache.
#pragma once

#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90/boxes.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda {

// How many neighbours of an f32 result are stored at once: aligned words of 16 bytes, of 8, or of 4.
inline int neighbours_at_once(const Target& target) {
  auto strides = static_cast<std::uint64_t>(target.row_stride | target.node_stride);
  for (int s = 1; s < target.slices; ++s) strides |= static_cast<std::uint64_t>(target.shift[s]);
  for (const int count : {4, 2}) {
    if (reinterpret_cast<std::uintptr_t>(target.data) % (4 * count) == 0 && strides % count == 0)
      return count;
  }
  return 1;
}

// Nodes as they are.
struct StoreEpilogue {
  static constexpr int kParts = 1, kResults = 1;
  static constexpr bool kSigma = false, kLoads = false, kCarries = false;
  Target target;
  int at_once = 1;  // f32: neighbours that a thread may store as one word

  // A chunk is two boxes.
  static constexpr int kChunkBoxes = 2;
  template <class Shape>
  static constexpr int kChunks = Shape::kWidth / (64 * kChunkBoxes);
  template <class Shape>
  __device__ static constexpr int chunk_stages() {
    return 1;
  }

  template <class Shape>
  __device__ void stage(float (&acc)[Shape::kRegisters], const tiles::Outlet<Shape>& out, RingPlace& at,
                        const SigmaCache&) const {
#pragma unroll
    for (int chunk = 0; chunk < kChunks<Shape>; ++chunk) {
      const int first = out.open(at);
      NanWatch watch;
#pragma unroll
      for (int box = 0; box < kChunkBoxes; ++box) {
        const BoxRows<64> rows(out.rows(first, box));
        const int begin = (chunk * kChunkBoxes + box) * 32;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const std::uint32_t word = pack_pair(acc[begin + i * 2], acc[begin + i * 2 + 1]);
          watch.see(word);
          rows.put(i, word);
        }
      }
      if (watch.seen()) {
        for (int box = 0; box < kChunkBoxes; ++box) BoxRows<64>(out.rows(first, box)).mend();
      }
      out.close(first);
    }
  }

  template <class Shape>
  __device__ void send(const CUtensorMap* results, const TilePlace& place, const tiles::Outlet<Shape>& out,
                       int chunk, int first) const {
    for (int i = 0; i < kChunkBoxes; ++i) {
      place.send(&results[0], (chunk * kChunkBoxes + i) * 64, out.rows(first, i));
    }
  }

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int node) const {
    const bool runs = at_once == 4 && place.cols % 4 == 0;
    if (target.f32 && !runs) return store_f32(acc, place, node);
    const Copied copied(acc);
    if (target.f32) return store_runs(copied, place, node);
    for_each_place(kRegisters, place, [&](int i, std::int64_t row, std::int64_t col) {
      store_node(target, target.start_of_row(row) + node * target.node_stride + col, copied.value[i]);
    });
  }

 private:
  // Four lanes that hold two neighbours each, of two runs of eight columns, exchange halves: then each has
  // four of one run, and together they store 64 bytes in one go, which matters where the memory is another
  // GPU's.
  template <int kRegisters>
  __device__ void store_runs(const Copied<kRegisters>& copied, const TilePlace& place, int node) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const bool odd = lane % 2 != 0;
    const std::int64_t column = place.col + (odd ? 8 : 0) + lane % 4 / 2 * 4;
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = place.row + warp * 16 + lane / 4 + half * 8;
      // Columns from here on, of a row that there is.
      const int left = row < place.rows ? static_cast<int>(place.cols - column) : 0;
      float* const to =
          static_cast<float*>(target.data) + target.start_of_row(row) + node * target.node_stride + column;
#pragma unroll 2
      for (int i = 0; i < kRegisters; i += 8) {
        const int first = i + half * 2, second = first + 4;  // of the two runs
        const float low = __shfl_xor_sync(~0U, odd ? copied.value[first] : copied.value[second], 1),
                    high = __shfl_xor_sync(~0U, odd ? copied.value[first + 1] : copied.value[second + 1], 1);
        if (i * 2 >= left) continue;
        *reinterpret_cast<float4*>(to + i * 2) =
            make_float4(numerics::canonical_f32(odd ? low : copied.value[first]),
                        numerics::canonical_f32(odd ? high : copied.value[first + 1]),
                        numerics::canonical_f32(odd ? copied.value[second] : low),
                        numerics::canonical_f32(odd ? copied.value[second + 1] : high));
      }
    }
  }

  // Covers and accumulators: whole lines of every eight lanes.
  template <int kRegisters>
  __device__ void store_f32(const float (&acc)[kRegisters], const TilePlace& place, int node) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int i = 0; i < kRegisters; i += 2) {
      const std::int64_t row = place.row + warp * 16 + lane / 4 + i / 2 % 2 * 8,
                         col = place.col + i / 4 * 8 + lane % 4 * 2;
      if (row >= place.rows || col >= place.cols) continue;
      float* const to =
          static_cast<float*>(target.data) + target.start_of_row(row) + node * target.node_stride + col;
      const float low = numerics::canonical_f32(acc[i]), high = numerics::canonical_f32(acc[i + 1]);
      if (at_once >= 2 && col + 1 < place.cols) {
        *reinterpret_cast<float2*>(to) = make_float2(low, high);
      } else {
        to[0] = low;
        if (col + 1 < place.cols) to[1] = high;
      }
    }
  }
};

// Nodes as they are, of a chain that may begin with carried accumulators and end in them.
struct CarryEpilogue : StoreEpilogue {
  static constexpr bool kCarries = true;
  Carried carried;

  template <int kRegisters>
  __device__ void resume(float (&acc)[kRegisters], const TilePlace& place) const {
    for_each_carried<kRegisters>(place, [&](int i, float& value) { acc[i] = value; });
  }
  template <int kRegisters>
  __device__ void leave_open(const float (&acc)[kRegisters], const TilePlace& place) const {
    for_each_carried<kRegisters>(place, [&](int i, float& value) { value = acc[i]; });
  }

 private:
  // Written out: accumulators stay in registers.
  template <int kRegisters, class Body>
  __device__ void for_each_carried(const TilePlace& place, const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      const std::int64_t row = place.row + warp * 16 + lane / 4 + i / 2 % 2 * 8,
                         col = place.col + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (row < place.rows && col < place.cols) body(i, carried.data[row * carried.row_stride + col]);
    }
  }
};

// G, U and A from the two parts of a tile.
template <Swiglu kKind>
struct ActivateEpilogue {
  static constexpr int kParts = 2, kResults = 3;
  static constexpr bool kSigma = true, kLoads = false, kCarries = false;
  Rows act, gate, up;
  const float* sigma = nullptr;
  bool keep = true;  // G and U are wanted

  // A chunk is a box of each result.
  template <class Shape>
  static constexpr int kChunks = Shape::kWidth / 2 / Shape::kBoxColumns;
  template <class Shape>
  __device__ int chunk_stages() const {
    return keep && Shape::kBoxes < 3 ? 2 : 1;
  }

  template <class Shape>
  __device__ void stage(float (&acc)[Shape::kRegisters], const tiles::Outlet<Shape>& out, RingPlace& at,
                        const SigmaCache& cache) const {
    using Box = BoxRows<Shape::kBoxColumns>;
    constexpr int kPart = Shape::kRegisters / 2;  // registers of gate, and of up
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks<Shape>; ++chunk) {
      const int first = out.open(at);
      const Box to_act(out.rows(first, 0)), to_gate(out.rows(first, 1)), to_up(out.rows(first, 2));
      NanWatch watch;  // a NaN of G or U is one of A
#pragma unroll
      for (int i = 0; i < Box::kPairs; ++i) {
        const std::uint32_t g = pack_pair(acc[i * 2], acc[i * 2 + 1]),
                            u = pack_pair(acc[kPart + i * 2], acc[kPart + i * 2 + 1]);
        const SigmaCache::Two s = cache.of(g);
        const auto one = [&](int half) {
          return numerics::swiglu_unrounded(kKind, widened(g, half), widened(u, half), s.of[half]);
        };
        const std::uint32_t a = pack_pair(one(0), one(1));
        watch.see(a);
        to_act.put(i, a);
        if (!keep) continue;
        to_gate.put(i, g);
        to_up.put(i, u);
      }
      if (watch.seen()) {
        to_act.mend();
        if (keep) to_gate.mend(), to_up.mend();
      }
      out.close(first);
      move_down<2 * Box::kPairs, 0, kPart>(acc);
      move_down<2 * Box::kPairs, kPart, 2 * kPart>(acc);
    }
  }

  template <class Shape>
  __device__ void send(const CUtensorMap* results, const TilePlace& place, const tiles::Outlet<Shape>& out,
                       int chunk, int first) const {
    for (int i = 0; i < (keep ? kResults : 1); ++i) {
      place.send(&results[i], chunk * Shape::kBoxColumns, out.rows(first, i));
    }
  }

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int) const {
    const Copied copied(acc);
    for_each_place(kRegisters / 2, place, [&](int i, std::int64_t row, std::int64_t col) {
      const std::uint16_t g = numerics::round_bf16(copied.value[i]),
                          u = numerics::round_bf16(copied.value[i + kRegisters / 2]);
      act.at(row, col) = numerics::swiglu(kKind, g, u, sigma[g]);
      if (!keep) return;
      gate.at(row, col) = g;
      up.at(row, col) = u;
    });
  }
};

// dG and dU from dA, G and U. The producer brings G and U into the stages that dG and dU leave from.
template <Swiglu kKind>
struct GradientEpilogue {
  static constexpr int kParts = 1, kResults = 2;
  static constexpr bool kSigma = true, kLoads = true, kCarries = false;
  Rows gate, up, d_gate, d_up;
  const float* sigma = nullptr;

  // A chunk is a box of each result.
  template <class Shape>
  static constexpr int kChunks = Shape::kWidth / 64;
  template <class Shape>
  __device__ static constexpr int chunk_stages() {
    return 1;
  }

  template <class Shape>
  __device__ void stage(float (&acc)[Shape::kRegisters], const tiles::Outlet<Shape>& out, RingPlace& at,
                        const SigmaCache& cache) const {
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks<Shape>; ++chunk) {
      const int first = out.open(at);
      const BoxRows<64> for_gate(out.rows(first, 0)), for_up(out.rows(first, 1));
      NanWatch watch;
      constexpr int kBatch = 4;  // pairs read before any is written
#pragma unroll
      for (int begin = 0; begin < 16; begin += kBatch) {
        std::uint32_t g[kBatch], u[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) g[i] = for_gate.get(begin + i), u[i] = for_up.get(begin + i);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const std::uint32_t d = pack_pair(acc[(begin + i) * 2], acc[(begin + i) * 2 + 1]);
          const SigmaCache::Two s = cache.of(g[i]);
          const auto one = [&](int half) {
            return numerics::swiglu_gradient_unrounded(kKind, widened(d, half), widened(g[i], half),
                                                       widened(u[i], half), s.of[half]);
          };
          const auto low = one(0), high = one(1);
          const std::uint32_t d_g = pack_pair(low.gate, high.gate), d_u = pack_pair(low.up, high.up);
          watch.see(d_g);
          watch.see(d_u);
          for_gate.put(begin + i, d_g);
          for_up.put(begin + i, d_u);
        }
      }
      if (watch.seen()) for_gate.mend(), for_up.mend();
      out.close(first);
      move_down<32, 0, Shape::kRegisters>(acc);
    }
  }

  template <class Shape>
  __device__ void send(const CUtensorMap* results, const TilePlace& place, const tiles::Outlet<Shape>& out,
                       int chunk, int first) const {
    for (int i = 0; i < kResults; ++i) {
      place.send(&results[i], chunk * Shape::kBoxColumns, out.rows(first, i));
    }
  }

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int) const {
    const Copied copied(acc);
    for_each_place(kRegisters, place, [&](int i, std::int64_t row, std::int64_t col) {
      const std::uint16_t g = gate.at(row, col);
      const numerics::SwigluGradient both = numerics::swiglu_gradient(
          kKind, numerics::round_bf16(copied.value[i]), g, up.at(row, col), sigma[g]);
      d_gate.at(row, col) = both.gate;
      d_up.at(row, col) = both.up;
    });
  }
};

}  // namespace samebits::engine::cuda
