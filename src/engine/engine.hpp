// The engine interface: the stages of the block on one processor, each leaving covers or finished tensors.
// Stages, not GEMMs, so that an engine may fuse inside one and prepare operands as it likes. No stage moves a
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "numerics/tree.hpp"
#include "samebits/contract.hpp"
#include "samebits/engine.hpp"
#include "samebits/layout.hpp"
#include "samebits/memory.hpp"
#include "samebits/view.hpp"

namespace samebits::engine {

// What a prepared block knows of its plan. Trees are those of the whole (unsharded) axes.
struct Problem {
  Contract contract;
  numerics::AxisTree hidden;
  numerics::AxisTree intermediate;
  numerics::AxisTree tokens;           // its length is the largest that a call may have
  std::int64_t rank_tokens = 0;        // most rows of any activation
  std::int64_t intermediate_held = 0;  // most columns of any [tokens, I] operand
  bool backward = true;
};

// What nodes of the contract are stored as.
constexpr DType node_dtype(const Contract& contract) {
  return contract.node == Precision::f32 ? DType::f32 : DType::bf16;
}

// Rows of a cover that lie where others read them: those up to `end`, from where the slice before ends, the
// first of them at data.
struct CoverSlice {
  std::int64_t end = 0;
  void* data = nullptr;
};
inline constexpr int kMostSlices = 8;

// Tree nodes of a [rows, cols] result over one shard of an axis, lowest node first, of node_dtype.
struct CoverView {
  void* data = nullptr;  // of all rows, where there are no slices
  std::int64_t nodes = 0;
  std::int64_t row_stride = 0;   // elements
  std::int64_t node_stride = 0;  // elements
  std::span<const CoverSlice> slices{};
};

// A contraction ends in a cover (the shard's nodes) or, when the shard is the whole axis, in the finished
// tensor.
struct Sink {
  CoverView cover{};
  View out{};
  bool finishes() const { return out.data != nullptr || (cover.data == nullptr && cover.slices.empty()); }
};

struct GateUp {
  ConstView x;                 // [M, H]
  ConstView gate, up;          // [I_r, H]
  View gate_out, up_out, act;  // [M, I_r]
  bool keep = true;            // false: nobody reads gate_out and up_out after the stage
};

struct Down {
  ConstView act;   // [M, axis]
  ConstView down;  // [N, axis]
  Interval axis;   // of I
  Sink sink;       // [M, N]
};

struct DAct {
  ConstView dy;        // [M, H]
  ConstView down;      // [H, I_r]
  ConstView gate, up;  // [M, I_r], saved
  View d_gate, d_up;   // [M, I_r]: dG and dU
};

struct DHidden {
  ConstView d_gate, d_up;  // [M, axis]
  ConstView gate, up;      // [axis, N]
  Interval axis;           // of I
  View dx;                 // [M, N], finished
};

struct DHiddenLane {
  ConstView d;       // [M, axis]: dG or dU
  ConstView weight;  // [axis, N]: gate or up
  Interval axis;
  CoverView cover;
};

// The accumulators of a leaf that one call begins and another ends: f32, [R, C], not yet rounded to a node.
struct OpenLeaf {
  float* data = nullptr;
  std::int64_t row_stride = 0;
};

// d[r, c] = sum over tokens of left[t, r] * right[t, c].
struct DWeight {
  ConstView left;                  // [tokens held, R]
  ConstView right;                 // [tokens held, C]
  numerics::AxisTree tokens;       // the tree of all tokens
  std::span<const Interval> held;  // which of them the operands hold, ascending
  Sink sink;                       // [R, C]; the finished tensor may be f32

  // The first interval may begin inside a leaf, whose accumulators are then taken from here, and the last may
  // end inside one (at a multiple of the granule, or nothing follows), whose accumulators are left here: no
  // node of the cover.
  OpenLeaf open{};
};

// One node of a finish: where its [rows, cols] values lie.
struct FinishNode {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  int merges = 0;             // of the stack after this node is pushed
  bool accumulators = false;  // f32 accumulators of a leaf that ends here, not yet a node
};

// Covers that tile the axis to a tensor, or those of one node to that node. `up` is empty but for dX, whose
// two lanes are added (contract.lanes). `out` may be the memory of one of the nodes.
struct Finish {
  std::span<const FinishNode> nodes;
  std::span<const FinishNode> up;
  View out;
};

// A block prepared on an engine: owns its workspace; allocates and synchronises nothing in a stage.
class Block {
 public:
  virtual ~Block() = default;
  virtual void gate_up(const GateUp& stage, Queue queue) = 0;
  virtual void down(const Down& stage, Queue queue) = 0;
  virtual void d_act(const DAct& stage, Queue queue) = 0;
  virtual void d_hidden(const DHidden& stage, Queue queue) = 0;
  virtual void d_hidden_lane(const DHiddenLane& stage, Queue queue) = 0;
  virtual void d_weight(const DWeight& stage, Queue queue) = 0;
  virtual void finish(const Finish& stage, Queue queue) = 0;

  // Two stages of which the second takes what the first leaves, and nothing stands between. An engine that
  // runs them as one overrides these.
  virtual void gate_up_down(const GateUp& first, const Down& second, Queue queue) {
    gate_up(first, queue);
    down(second, queue);
  }
  virtual void d_act_hidden(const DAct& first, const DHidden& second, Queue queue) {
    d_act(first, queue);
    d_hidden(second, queue);
  }

  // Whether down and d_hidden_lane take covers in slices; else they are called slice by slice.
  virtual bool takes_slices() const { return false; }

  virtual std::size_t workspace_bytes() const = 0;
};

using Memory = std::unique_ptr<void, void (*)(void*)>;
using OwnedQueue =
    std::unique_ptr<void, void (*)(void*)>;  // handle of a Queue; null where the engine has none
using OwnedEvent = std::unique_ptr<void, void (*)(void*)>;  // a point of a queue; null likewise

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  // Throws Error(refused) for a contract this engine cannot run.
  virtual std::unique_ptr<Block> prepare(const Problem& problem) = 0;
  virtual Memory allocate(std::size_t bytes) = 0;
  // Any strides; same shape and dtype; between the host and this device, or within it. Moves bits, rounds
  // nothing. A copy that touches host memory is done on return.
  virtual void copy(const View& to, const ConstView& from, Queue queue) = 0;

  // Cover nodes that one finish takes: the operator gathers operands where there would be more.
  virtual int most_finish_nodes() const { return std::numeric_limits<int>::max(); }

  virtual OwnedQueue make_queue() {
    return {nullptr, [](void*) {}};
  }
  virtual void synchronize(Queue) {}

  // One queue behind another, without the host: what `queue` holds now is before everything that is enqueued
  // after wait(). Host work is done on return, so there nothing has to be.
  virtual OwnedEvent make_event() {
    return {nullptr, [](void*) {}};
  }
  virtual void record(Queue, void* /*event*/) {}
  virtual void wait(Queue, void* /*event*/) {}

  // Throws Error(invalid_argument) for an address that this engine's kernels cannot read.
  virtual void require_reachable(const char*, const ConstView&) {}
};

}  // namespace samebits::engine
