#include "support/emulated_tiles.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "numerics/sigma.hpp"
#include "samebits/error.hpp"
#include "support/emulated_group.hpp"

namespace samebits::test {
namespace {

namespace hip = engine::hip;

constexpr int kGroups = 3;  // of a launch: some take several tiles

class EmulatedBlock final : public engine::Block {
 public:
  EmulatedBlock(const engine::Problem& problem, std::unique_ptr<engine::Block> cpu)
      : problem_(problem), cpu_(std::move(cpu)) {
    if (problem.contract.leaf == Leaf::sm90)
      throw Error(ErrorCode::refused, "the emulated tiles run leaves fma and gfx942");
    leaves_.reserve(problem.hidden);
    leaves_.reserve(problem.intermediate);
    if (problem.backward) leaves_.reserve(problem.tokens);
  }

  void gate_up(const engine::GateUp& stage, Queue) override {
    build(problem_.hidden, {0, problem_.hidden.length});
    hip::TileArguments args;
    args.count = 2;
    args.left[0] = args.left[1] = hip::by_rows(stage.x);
    args.right[0] = hip::by_rows(stage.gate);
    args.right[1] = hip::by_rows(stage.up);
    args.target[0] = hip::target_of_view(stage.gate_out);
    args.target[1] = hip::target_of_view(stage.up_out);
    run(args);
    for_each(stage.act, [&](std::int64_t row, std::int64_t col) {
      const auto g = at(stage.gate_out, row, col);
      at(stage.act, row, col) =
          numerics::swiglu(problem_.contract.swiglu, g, at(stage.up_out, row, col), sigma(g));
    });
  }

  void down(const engine::Down& stage, Queue queue) override {
    if (stage.axis.length() == 0) return cpu_->down(stage, queue);
    build(problem_.intermediate, stage.axis);
    hip::TileArguments args;
    args.left[0] = hip::by_rows(stage.act);
    args.right[0] = hip::by_rows(stage.down);
    args.target[0] = target_of(stage.sink);
    run(args);
  }

  void d_act(const engine::DAct& stage, Queue) override {
    build(problem_.hidden, {0, problem_.hidden.length});
    hip::TileArguments args;
    args.left[0] = hip::by_rows(stage.dy);
    args.right[0] = hip::by_cols(stage.down);
    args.target[0] = hip::target_of_view(stage.d_up);
    run(args);
    for_each(stage.d_up, [&](std::int64_t row, std::int64_t col) {
      const auto g = at(stage.gate, row, col);
      const auto d = numerics::swiglu_gradient(problem_.contract.swiglu, at(stage.d_up, row, col), g,
                                               at(stage.up, row, col), sigma(g));
      at(stage.d_gate, row, col) = d.gate;
      at(stage.d_up, row, col) = d.up;
    });
  }

  void d_hidden(const engine::DHidden& stage, Queue) override {
    build(problem_.intermediate, stage.axis);
    hip::TileArguments args;
    args.lanes = 2;
    args.lanes_precision = problem_.contract.lanes;
    args.left[0] = hip::by_rows(stage.d_gate);
    args.left[1] = hip::by_rows(stage.d_up);
    args.right[0] = hip::by_cols(stage.gate);
    args.right[1] = hip::by_cols(stage.up);
    args.target[0] = hip::target_of_view(stage.dx);
    run(args);
  }

  void d_hidden_lane(const engine::DHiddenLane& stage, Queue) override {
    build(problem_.intermediate, stage.axis);
    hip::TileArguments args;
    args.left[0] = hip::by_rows(stage.d);
    args.right[0] = hip::by_cols(stage.weight);
    args.target[0] = target_of({stage.cover, {}});
    run(args);
  }

  void d_weight(const engine::DWeight& stage, Queue queue) override {
    leaves_.build(stage.tokens, stage.held, stage.open.data != nullptr);
    if (leaves_.count() == 0) return cpu_->d_weight(stage, queue);
    hip::TileArguments args;
    args.left[0] = hip::by_cols(stage.left);
    args.right[0] = hip::by_cols(stage.right);
    args.target[0] = target_of(stage.sink);
    args.carried = {stage.open.data, stage.open.row_stride, leaves_.resumes(), leaves_.stays_open()};
    run(args);
  }

  void finish(const engine::Finish& stage, Queue queue) override { cpu_->finish(stage, queue); }
  std::size_t workspace_bytes() const override { return cpu_->workspace_bytes(); }

 private:
  void build(const numerics::AxisTree& tree, Interval held) { leaves_.build(tree, {&held, 1}); }

  void run(hip::TileArguments& args) {
    args.bf16_nodes = problem_.contract.node == Precision::bf16;
    args.pending.slots = kGroups;
    args.pending.levels = leaves_.levels() + 1;
    // NaNs, as in LDS.
    std::vector<hip::FourFloats> slots(static_cast<std::size_t>(kGroups) *
                                       static_cast<std::size_t>(args.pending.levels * hip::kTileLevel / 4));
    std::memset(static_cast<void*>(slots.data()), 0xFF, slots.size() * sizeof slots[0]);
    args.pending.data = reinterpret_cast<float*>(slots.data());
    const auto list = leaves_.list<hip::LongLeafList>();
    for (int block = 0; block < kGroups; ++block) {
      EmulatedGroup group(block, kGroups);
      if (problem_.contract.leaf == Leaf::fma) {
        hip::run_tiles<Leaf::fma>(group, args, list);
      } else {
        hip::run_tiles<Leaf::gfx942>(group, args, list);
      }
    }
  }

  hip::Target target_of(const engine::Sink& sink) const {
    if (sink.finishes()) return hip::target_of_view(sink.out);
    const engine::CoverView& cover = sink.cover;
    return {cover.data, problem_.contract.node == Precision::f32, cover.row_stride, 1, cover.node_stride};
  }

  float sigma(numerics::Bf16 g) const { return numerics::sigma(problem_.contract.sigma, g); }
  static numerics::Bf16& at(const View& view, std::int64_t row, std::int64_t col) {
    return static_cast<numerics::Bf16*>(view.data)[row * view.row_stride + col * view.col_stride];
  }
  static numerics::Bf16 at(const ConstView& view, std::int64_t row, std::int64_t col) {
    return static_cast<const numerics::Bf16*>(view.data)[row * view.row_stride + col * view.col_stride];
  }
  template <class Body>
  static void for_each(const View& view, const Body& body) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t col = 0; col < view.cols; ++col) body(row, col);
    }
  }

  engine::Problem problem_;
  std::unique_ptr<engine::Block> cpu_;
  hip::Leaves leaves_;
};

class EmulatedEngine final : public engine::Engine {
 public:
  std::string name() const override { return "emulated tiles"; }
  Device device() const override { return cpu_->device(); }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return std::make_unique<EmulatedBlock>(problem, cpu_->prepare(problem));
  }
  engine::Memory allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void copy(const View& to, const ConstView& from, Queue queue) override { cpu_->copy(to, from, queue); }

 private:
  std::shared_ptr<engine::Engine> cpu_ = make_cpu_engine({1, Isa::plain});
};

}  // namespace

std::shared_ptr<engine::Engine> emulated_tiles() { return std::make_shared<EmulatedEngine>(); }

}  // namespace samebits::test
