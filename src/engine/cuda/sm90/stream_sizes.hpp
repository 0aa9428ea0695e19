// Sizes that the kernel of stream.cuh and the choice of its tuning share.
#pragma once

namespace samebits::engine::cuda::stream {

inline constexpr int kTokenColumns[] = {8, 16, 32};  // of the narrow operand, that kernels are built for
inline constexpr int kTurn = 64;                     // k
inline constexpr int kMostValues = 16;               // of a thread
inline constexpr int kRowBytes = kTurn * 2;
inline constexpr int kMostSlots = 16;
inline constexpr int kBarrierBytes = 2 * 8 * kMostSlots;  // two of each slot
inline constexpr int kConsumerWarps = 12;
inline constexpr int kConsumers = kConsumerWarps * 32;
inline constexpr int kThreads = kConsumers + 32;  // and the producer's warp
inline constexpr int kMostPrefetched = 10;        // slots of a block that go ahead of the ring, into L2

}  // namespace samebits::engine::cuda::stream
