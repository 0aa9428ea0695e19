#include "block/staging.hpp"

#include <utility>

namespace samebits::tools {

Staging::Staging(std::shared_ptr<engine::Engine> device_engine)
    : engine_(std::move(device_engine)), queue_(nullptr, [](void*) {}) {
  if (engine_) queue_ = engine_->make_queue();
}

View Staging::copy_of(const ConstView& host) {
  memory_.push_back(engine_->allocate(static_cast<std::size_t>(host.elements()) * size_of(host.dtype)));
  const View there{memory_.back().get(), host.dtype, host.rows, host.cols, host.cols, 1, engine_->device()};
  engine_->copy(there, host, queue());
  return there;
}

ConstView Staging::input(const ConstView& host) { return engine_ ? ConstView(copy_of(host)) : host; }

View Staging::output(const View& host) { return engine_ ? copy_of(host) : host; }

void Staging::fetch(const View& host, const View& there) {
  if (!engine_) return;
  engine_->synchronize(queue());
  engine_->copy(host, there, queue());
}

}  // namespace samebits::tools
