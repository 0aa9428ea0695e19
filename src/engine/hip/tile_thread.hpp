// What a thread of a tile's workgroup holds and does between two barriers. No function here knows another
// thread: the kernel runs them on 256 threads, the emulation for each in turn.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/node.hpp"
#include "engine/cuda/operands.hpp"
#include "engine/hip/tile_layout.hpp"
#include "numerics/leaf_fma.hpp"
#include "numerics/swiglu.hpp"

namespace samebits::engine::hip {

using numerics::Bf16;

// LDS of a workgroup.
struct TileMemory {
  struct Operands {  // [line][k] of a chunk
    alignas(16) Bf16 left[kTile][kTilePitch];
    alignas(16) Bf16 right[kTile][kTilePitch];
  };
  union {
    Operands chunk;
    float fragment[kTileThreads / kWave][kFragment]
                  [kFragment + 1];  // of each wave, on the way to memory or back
  };
};

using FourBf16 = std::int16_t __attribute__((vector_size(8)));
using FourBf16InMemory = std::int16_t __attribute__((vector_size(8), may_alias));  // there they are Bf16
using FourFloats = float __attribute__((vector_size(16)));
using FragmentSum = float __attribute__((vector_size(64)));  // of a lane: kFragmentValues

// body(0), body(1), ... as constants.
template <class Body, int... kIndex>
SAMEBITS_HD inline void unrolled(const Body& body, std::integer_sequence<int, kIndex...>) {
  (body(std::integral_constant<int, kIndex>{}), ...);
}
template <int kCount, class Body>
SAMEBITS_HD inline void unrolled(const Body& body) {
  unrolled(body, std::make_integer_sequence<int, kCount>{});
}

// The value is made here, in the order written: a thread's share is too large to be worked on all at once.
SAMEBITS_HD inline void settle(float& value) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(value)::"memory");
#else
  static_cast<void>(value);
#endif
}

struct alignas(16) EightBf16 {
  Bf16 value[kPart];
};

// A chunk of an operand under way from memory to LDS.
struct ChunkLoad {
  EightBf16 part[kParts];

  // `count` k from k0 on; what lies beyond them and beyond the matrix is +0.
  [[gnu::always_inline]] SAMEBITS_HD void fetch(const Operand& from, std::int64_t outer0, std::int64_t k0,
                                                int count, int thread) {
    const bool along_k = from.k_stride == 1;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const PartPlace place = part_place(along_k, thread, p);
      const std::int64_t outer = outer0 + place.outer, lines = from.outer - outer;
      const Bf16* const first = from.data + outer * from.outer_stride + (k0 + place.k) * from.k_stride;
      const std::int64_t in_k = count - place.k;
      const std::int64_t valid = along_k ? (lines > 0 ? in_k : 0) : (in_k > 0 ? lines : 0);
      const std::int64_t step = along_k ? 1 : from.outer_stride;
      if (valid >= kPart && step == 1 && reinterpret_cast<std::uintptr_t>(first) % 16 == 0) {
        part[p] = *reinterpret_cast<const EightBf16*>(first);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) part[p].value[i] = i < valid ? first[i * step] : Bf16{0};
    }
  }
  [[gnu::always_inline]] SAMEBITS_HD void place(bool along_k, Bf16 (&to)[kTile][kTilePitch],
                                                int thread) const {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const PartPlace at = part_place(along_k, thread, p);
      if (along_k) {
        *reinterpret_cast<EightBf16*>(&to[at.outer][at.k]) = part[p];
      } else {
#pragma unroll
        for (int i = 0; i < kPart; ++i) to[at.outer + i][at.k] = part[p].value[i];
      }
    }
  }
};

// body(value, row, col) of a thread's share of its wave's fragment (m, n) in LDS, where it lies in the
// matrix; neighbouring lanes have neighbouring columns.
template <class Body>
[[gnu::always_inline]] SAMEBITS_HD inline void for_each_in_fragment(TileMemory& memory, int m, int n,
                                                                    std::int64_t row0, std::int64_t col0,
                                                                    std::int64_t rows, std::int64_t cols,
                                                                    int thread, const Body& body) {
  const int lane = thread % kWave;
  const std::int64_t top = row0 + wave_row(thread) + m * kFragment;
  const std::int64_t col = col0 + wave_col(thread) + n * kFragment + lane % kFragment;
#pragma unroll 1
  for (int r = lane / kFragment; r < kFragment; r += kWave / kFragment) {
    if (top + r < rows && col < cols)
      body(memory.fragment[thread / kWave][r][lane % kFragment], top + r, col);
  }
}

struct TileThread {
  float value[kShare];            // of the leaf in hand, then of the node
  FragmentSum sum[kSide][kSide];  // the same while matrix cores have them
  FourBf16 a[kSide], b[kSide];    // fragments of one group of 8 k
  ChunkLoad left, right;

  [[gnu::always_inline]] SAMEBITS_HD void clear() {
    for_each([&](auto v) { value[v] = 0.0f; });
  }
  [[gnu::always_inline]] SAMEBITS_HD void give_to_matrix_cores() {
    for_each([&](auto v) {
      sum[v / kFragmentValues / kSide][v / kFragmentValues % kSide][v % kFragmentValues] = value[v];
    });
  }
  [[gnu::always_inline]] SAMEBITS_HD void take_from_matrix_cores() {
    for_each([&](auto v) {
      value[v] = sum[v / kFragmentValues / kSide][v / kFragmentValues % kSide][v % kFragmentValues];
    });
  }

  [[gnu::always_inline]] SAMEBITS_HD void take_fragments(const TileMemory& memory, int group, int thread) {
    const int lane = thread % kWave, k = group * kFragmentK + fragment_k(lane);
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      a[i] = four(&memory.chunk.left[wave_row(thread) + i * kFragment + fragment_line(lane)][k]);
      b[i] = four(&memory.chunk.right[wave_col(thread) + i * kFragment + fragment_line(lane)][k]);
    }
  }

  // Leaf fma: `count` k from `first` on, at most four of them. Not one more: fma(0, 0, -0) is +0.
  [[gnu::always_inline]] SAMEBITS_HD void multiply(const TileMemory& memory, int first, int count,
                                                   int thread) {
    FourBf16 row[kShare / kSide], col[kSide];
#pragma unroll
    for (int n = 0; n < kSide; ++n)
      col[n] = four(&memory.chunk.right[col_in_tile(thread, n * kFragmentValues)][first]);
    for_each([&](auto v) {
      if (v / kFragmentValues % kSide == 0)
        row[row_of_share(v)] = four(&memory.chunk.left[row_in_tile(thread, v)][first]);
    });
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= count) break;
      for_each([&](auto v) {
        const int r = row_of_share(v), n = v / kFragmentValues % kSide;
        value[v] = numerics::fma_step(value[v], static_cast<Bf16>(row[r][k]), static_cast<Bf16>(col[n][k]));
      });
    }
  }

  [[gnu::always_inline]] SAMEBITS_HD void round(bool bf16_nodes) {
    if (!bf16_nodes) return;
    for_each([&](auto v) {
      value[v] = numerics::rounded_bf16(value[v]);
      settle(value[v]);
    });
  }

  // A level of pending nodes, four neighbouring values of a thread at a time.
  [[gnu::always_inline]] SAMEBITS_HD void push(float* level, int thread) {
    auto* const mine = reinterpret_cast<FourFloats*>(level) + thread;
    unrolled<kShare / 4>([&](auto i) {
      mine[i * kTileThreads] = FourFloats{value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]};
    });
  }
  // value = node(pending + value)
  [[gnu::always_inline]] SAMEBITS_HD void merge(const float* level, bool bf16_nodes, int thread) {
    for_each_pending(level, thread,
                     [&](float& upper, float lower) { upper = as_node(bf16_nodes, lower + upper); });
  }
  [[gnu::always_inline]] SAMEBITS_HD void add_lanes(const float* level, Precision lanes, int thread) {
    for_each_pending(level, thread, [&](float& up, float gate) {
      up = numerics::widen(numerics::add_lanes(lanes, gate, up));
    });
  }

  // Fragment (m, n) of the wave to LDS and from there, where elements are reached in a loop: from registers
  // each would want an address of its own.
  template <int kM, int kN>
  [[gnu::always_inline]] SAMEBITS_HD void put_fragment(TileMemory& memory, int thread) const {
    const int lane = thread % kWave;
    unrolled<kFragmentValues>([&](auto i) {
      memory.fragment[thread / kWave][result_row(lane, i)][result_col(lane)] =
          value[(kM * kSide + kN) * kFragmentValues + i];
    });
  }
  template <int kM, int kN>
  [[gnu::always_inline]] SAMEBITS_HD void take_fragment(const TileMemory& memory, int thread) {
    const int lane = thread % kWave;
    unrolled<kFragmentValues>([&](auto i) {
      value[(kM * kSide + kN) * kFragmentValues + i] =
          memory.fragment[thread / kWave][result_row(lane, i)][result_col(lane)];
    });
  }

 private:
  // Which of the share's rows value v stands in.
  SAMEBITS_HD static constexpr int row_of_share(int v) {
    return v / (kSide * kFragmentValues) * kFragmentValues + v % kFragmentValues;
  }
  [[gnu::always_inline]] SAMEBITS_HD static FourBf16 four(const Bf16* from) {
    return *reinterpret_cast<const FourBf16InMemory*>(from);
  }
  template <class Body>
  [[gnu::always_inline]] SAMEBITS_HD void for_each_pending(const float* level, int thread, const Body& body) {
    const auto* const pending = reinterpret_cast<const FourFloats*>(level) + thread;
    unrolled<kShare / 4>([&](auto i) {
      const FourFloats four = pending[i * kTileThreads];
      unrolled<4>([&](auto j) {
        float& mine = value[4 * i + j];
        body(mine, four[int{j}]);
        settle(mine);
      });
    });
  }
  // body(v) with every v a constant: what a thread holds are registers, which have no addresses.
  template <class Body>
  [[gnu::always_inline]] SAMEBITS_HD static void for_each(const Body& body) {
    unrolled<kShare>(body);
  }
};

}  // namespace samebits::engine::hip
