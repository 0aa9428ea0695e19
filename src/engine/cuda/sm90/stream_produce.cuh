// The thread of stream.cuh that feeds the ring.
#pragma once

#include "engine/cuda/sm90/stream_ring.cuh"

namespace samebits::engine::cuda::stream {

template <class Phase, int kTokens>
struct Producer {
  using Args = PhaseArguments<Phase>;

  // One slot of weights, its barrier told of the tokens too.
  __device__ static void load_weights(const Args& args, const Ring& ring, RingPlace& at,
                                      TurnWalk<Phase>& walk) {
    std::uint64_t* const full = &ring.full[at.stage];
    barrier_wait(&ring.empty[at.stage], at.phase ^ 1u);
    const int turns = min(args.per_slot, walk.left);
    unsigned char* const slot = ring.slot(at.stage);
    barrier_expect(
        full, static_cast<std::uint32_t>(turns * (Phase::kParts * args.unit_rows + kTokens) * kRowBytes));
    at.advance(ring.slots);
    if (args.whole) {
      const Turn turn = walk.turn();
      if constexpr (Phase::kColumns) {
        load_pieces(slot, &args.weight[turn.lane], 0, turn.k, turn.row / 32, full, Keep::briefly);
      } else {
        for (int part = 0; part < Phase::kParts; ++part) {
          load_pieces(slot + part * args.part_bytes(), &args.weight[Phase::kParts == 2 ? part : turn.lane], 0,
                      turn.row, turn.k / kTurn, full, Keep::briefly);
        }
      }
      walk.advance_slot();
      return;
    }
    for (int i = 0; i < turns; ++i, walk.advance()) {
      const Turn turn = walk.turn();
      if constexpr (Phase::kColumns) {
        for (int row = 0; row < args.unit_rows; row += 32) {
          load_tile(slot + row / 32 * args.chunk_bytes() + i * kTurn * 64, &args.weight[turn.lane],
                    turn.row + row, turn.k, full, Keep::briefly);
        }
      } else {
        for (int part = 0; part < Phase::kParts; ++part) {
          load_tile(slot + part * args.part_bytes() + i * args.unit_rows * kRowBytes,
                    &args.weight[Phase::kParts == 2 ? part : turn.lane], turn.k, turn.row, full,
                    Keep::briefly);
        }
      }
    }
  }

  // A whole slot of weights into L2.
  __device__ static void prefetch_weights(const Args& args, TurnWalk<Phase>& walk) {
    const Turn turn = walk.turn();
    if constexpr (Phase::kColumns) {
      prefetch_pieces(&args.weight[turn.lane], 0, turn.k, turn.row / 32);
    } else {
      for (int part = 0; part < Phase::kParts; ++part) {
        prefetch_pieces(&args.weight[Phase::kParts == 2 ? part : turn.lane], 0, turn.row, turn.k / kTurn);
      }
    }
    walk.advance_slot();
  }

  // Every block of a cluster brings its share of the tokens, for all turns of the slot, to all of them.
  __device__ static void load_tokens(const Args& args, const Ring& ring, RingPlace& at, TurnWalk<Phase>& walk,
                                     int cluster) {
    std::uint64_t* const full = &ring.full[at.stage];
    const int turns = min(args.per_slot, walk.left), rows = kTokens / cluster, first = walk.rank * rows;
    const auto everyone = static_cast<std::uint16_t>((1 << cluster) - 1);
    unsigned char* const share = ring.slot(at.stage) + args.tokens_at() + args.per_slot * first * kRowBytes;
    at.advance(ring.slots);
    if (args.whole) {
      const Turn turn = walk.turn();
      if (cluster == 1) {
        load_pieces(share, &args.token[turn.lane], 0, 0, turn.k / kTurn, full, Keep::long_);
      } else {
        load_pieces_for_all(share, &args.token[turn.lane], 0, first, turn.k / kTurn, full, everyone,
                            Keep::long_);
      }
      walk.advance_slot();
      return;
    }
    for (int i = 0; i < turns; ++i, walk.advance()) {
      const Turn turn = walk.turn();
      unsigned char* const to = share + i * rows * kRowBytes;
      if (cluster == 1) {
        load_tile(to, &args.token[turn.lane], turn.k, 0, full, Keep::long_);
      } else {
        load_tile_for_all(to, &args.token[turn.lane], turn.k, first, full, everyone, Keep::long_);
      }
    }
  }

  // Weights wait for room only; tokens also for whoever makes them: wait(idle), where idle() fetches what
  // comes after the ring into L2 as long as there is something to fetch, so that the memory does not rest
  // while blocks wait.
  template <class Wait>
  __device__ static void produce(const Args& args, const Ring& ring, RingPlace& at, int rank, int cluster,
                                 const Wait& wait) {
    TurnWalk<Phase> weights(args, rank), tokens(args, rank);
    RingPlace tokens_at = at;
    int ahead = 0;
    for (; ahead < ring.slots && weights.left > 0; ++ahead) load_weights(args, ring, at, weights);
    TurnWalk<Phase> beyond = weights;
    int prefetched = 0;
    wait([&] {
      if (!args.whole || beyond.left <= 0 || prefetched == kMostPrefetched) return false;
      ++prefetched;
      prefetch_weights(args, beyond);
      return true;
    });
    for (; ahead > 0; --ahead) load_tokens(args, ring, tokens_at, tokens, cluster);
    while (weights.left > 0) {
      load_weights(args, ring, at, weights);
      load_tokens(args, ring, tokens_at, tokens, cluster);
    }
  }
};

}  // namespace samebits::engine::cuda::stream
