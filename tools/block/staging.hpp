// Host tensors where a plan's engine reaches them: themselves for the cpu engine, copies on the device of
// another. The host's stay the truth: results come back before anything looks at them.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "samebits/view.hpp"

namespace samebits::tools {

class Staging {
 public:
  // Null: an engine of host memory. One thread's; it has a queue of its own.
  explicit Staging(std::shared_ptr<engine::Engine> device_engine);

  Queue queue() const { return {queue_.get()}; }

  // Rows packed, and there on return.
  ConstView input(const ConstView& host);

  // As the host tensor, its contents too: poison reaches the device.
  View output(const View& host);

  // What the queue's work left in output(host), once that is done.
  void fetch(const View& host, const View& there);

 private:
  View copy_of(const ConstView& host);

  std::shared_ptr<engine::Engine> engine_;
  engine::OwnedQueue queue_;
  std::vector<engine::Memory> memory_;
};

}  // namespace samebits::tools
