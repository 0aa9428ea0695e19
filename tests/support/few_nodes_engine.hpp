// An engine whose finish takes few cover nodes, as a device's may. It computes nothing: for what is counted
// from sizes.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "samebits/error.hpp"

namespace samebits::test {

class FewNodesEngine final : public engine::Engine {
 public:
  explicit FewNodesEngine(int most) : most_(most) {}

  int most_finish_nodes() const override { return most_; }
  std::string name() const override { return "few nodes"; }
  Device device() const override { return {}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem&) override { fail(); }
  engine::Memory allocate(std::size_t) override { fail(); }
  void copy(const View&, const ConstView&, Queue) override { fail(); }

 private:
  [[noreturn]] static void fail() { throw Error(ErrorCode::internal, "an engine that computes nothing"); }

  int most_;
};

}  // namespace samebits::test
