// One tile of a contraction: walks the pieces of a chunk, keeps the stack of pending nodes in the tile's
// state.
#pragma once

#include "engine/cpu/kernels.hpp"
#include "numerics/leaf_gfx942_lanes.hpp"
#include "numerics/leaf_sm90_lanes.hpp"

namespace samebits::engine::cpu {

// The end of a leaf for one vector: node() of its accumulator, then `merges` nodes with what the stack holds.
// `slot` is the vector's place in level 0; `height` counts the nodes below.
template <class V>
inline void push_node(typename V::F value, float* slot, std::int64_t level_stride, int height, int merges,
                      bool round) {
  const auto node = [&](typename V::F x) { return round ? V::round_bf16(x) : x; };
  typename V::F top = node(value);
  for (int m = 0; m < merges; ++m) {
    top = node(V::add(V::load(slot + (height - m) * level_stride), top));
  }
  V::store(slot + (height - merges + 1) * level_stride, top);
}

// The end of a leaf for all vectors of a tile at once, in registers.
template <class V, int R, int C, bool kRound>
inline void push_nodes(typename V::F (&top)[R][C], float* state, int height, int merges) {
  constexpr int kWidth = C * V::kLanes;
  constexpr std::int64_t kLevel = R * kWidth;
  const auto node = [](typename V::F x) {
    if constexpr (kRound) x = V::round_bf16(x);
    return x;
  };
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) top[r][c] = node(top[r][c]);
  }
  const float* below = state + height * kLevel;
  for (int m = 0; m < merges; ++m, below -= kLevel) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c)
        top[r][c] = node(V::add(V::load(below + r * kWidth + c * V::kLanes), top[r][c]));
    }
  }
  float* const to = state + (height - merges + 1) * kLevel;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) V::store(to + r * kWidth + c * V::kLanes, top[r][c]);
  }
}

template <class V, int R, int C>
struct FmaTile {
  static void run(const Tile& t) {
    using F = typename V::F;
    constexpr int kWidth = C * V::kLanes;
    int height = t.height;
    for (int p = 0; p < t.count; ++p) {
      const Piece piece = t.pieces[p];
      F acc[R][C];
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c)
          acc[r][c] = piece.opens ? V::zero() : V::load(t.state + r * kWidth + c * V::kLanes);
      }
      const float* row = t.rows.value + piece.begin;
      const float* lane = t.lanes.value + std::int64_t{piece.begin} * kWidth;
      for (int k = piece.begin; k < piece.end; ++k, ++row, lane += kWidth) {
        F b[C];
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) b[c] = V::load(lane + c * V::kLanes);
#pragma GCC unroll 12
        for (int r = 0; r < R; ++r) {
          const F a = V::broadcast(row + r * kRowStride);
#pragma GCC unroll 2
          for (int c = 0; c < C; ++c) acc[r][c] = V::fma(a, b[c], acc[r][c]);
        }
      }
      if (!piece.closes) {
#pragma GCC unroll 12
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
          for (int c = 0; c < C; ++c) V::store(t.state + r * kWidth + c * V::kLanes, acc[r][c]);
        }
        continue;
      }
      if (t.round_nodes) {
        push_nodes<V, R, C, true>(acc, t.state, height, piece.merges);
      } else {
        push_nodes<V, R, C, false>(acc, t.state, height, piece.merges);
      }
      height += 1 - piece.merges;
    }
  }
};

// The leaves that take 16 products a step. `Step(acc, group, special)` is one.
template <class V, int R, int C, class Step>
inline void matrix_tile(const Tile& t, const Step& step) {
  using F = typename V::F;
  constexpr int kWidth = C * V::kLanes;
  constexpr std::int64_t kLevel = R * kWidth;
  int height = t.height;
  for (int p = 0; p < t.count; ++p) {
    const Piece piece = t.pieces[p];
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) {
        float* const slot = t.state + r * kWidth + c * V::kLanes;
        F acc = piece.opens ? V::zero() : V::load(slot);
        for (int k = piece.begin; k < piece.end; k += 16) {
          const std::int64_t row = std::int64_t{r} * kRowStride + k;
          const std::int64_t lane = std::int64_t{k} * kWidth + c * V::kLanes;
          const numerics::LaneGroup<V> group{t.rows.value + row, t.rows.exponent + row, t.lanes.value + lane,
                                             t.lanes.exponent + lane, kWidth};
          acc = step(acc, group, (t.rows.special[r * kGroups + k / 16] | t.lanes.special[k / 16]) != 0);
        }
        if (piece.closes) {
          push_node<V>(acc, slot, kLevel, height, piece.merges, t.round_nodes);
        } else {
          V::store(slot, acc);
        }
      }
    }
    if (piece.closes) height += 1 - piece.merges;
  }
}

template <class V, int R, int C>
struct Sm90Tile {
  static void run(const Tile& t) {
    matrix_tile<V, R, C>(t, [](auto acc, const auto& group, bool special) {
      return numerics::sm90_step_lanes<V>(acc, group, special);
    });
  }
};

template <class V, int R, int C>
struct Gfx942Tile {
  static void run(const Tile& t) {
    matrix_tile<V, R, C>(t, [](auto acc, const auto& group, bool special) {
      acc = numerics::gfx942_step_lanes<V>(acc, group, 0, special);
      return numerics::gfx942_step_lanes<V>(acc, group, 8, special);
    });
  }
};

// nodes[n] holds [rows][width] f32: the stack of a tile, lowest first.
template <class V>
void write_tile(const float* nodes, int rows, int lanes, int width, int level_stride, int node_count,
                const Target& out) {
  for (int n = 0; n < node_count; ++n) {
    for (int r = 0; r < rows; ++r) {
      const float* const from = nodes + std::int64_t{n} * level_stride + r * width;
      const std::int64_t base = r * out.row_stride + n * out.node_stride;
      int i = 0;
      for (; i + V::kLanes <= lanes && out.lane_stride == 1; i += V::kLanes) {
        if (out.f32) {
          V::store(static_cast<float*>(out.data) + base + i, V::canonical(V::load(from + i)));
        } else {
          V::store_bf16(static_cast<std::uint16_t*>(out.data) + base + i, V::load(from + i));
        }
      }
      for (; i < lanes; i += V::kLanes) {  // a tail, or a transposed result
        const int count = lanes - i < V::kLanes ? lanes - i : V::kLanes;
        if (out.f32) {
          float some[V::kLanes];
          V::store(some, V::canonical(V::load(from + i)));
          for (int j = 0; j < count; ++j)
            static_cast<float*>(out.data)[base + (i + j) * out.lane_stride] = some[j];
        } else {
          std::uint16_t some[V::kLanes];
          V::store_bf16(some, V::load(from + i));
          for (int j = 0; j < count; ++j) {
            static_cast<std::uint16_t*>(out.data)[base + (i + j) * out.lane_stride] = some[j];
          }
        }
      }
    }
  }
}

}  // namespace samebits::engine::cpu
