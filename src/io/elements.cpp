#include "io/elements.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::io {

void check_host_view(const ConstView& view, std::string_view what) {
  const auto refuse = [&](std::string_view problem) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} {}", what, problem));
  };
  if (view.device.space != MemorySpace::host) refuse("lies in device memory; copy it to the host first");
  if (view.rows < 0 || view.cols < 0) {
    refuse(fmt::format("has the shape [{}, {}]; sizes are 0 or more", view.rows, view.cols));
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(view.rows, view.cols, &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<std::int64_t>(size_of(view.dtype)), &bytes)) {
    refuse(fmt::format("has the shape [{}, {}], more bytes than 64 bits can count", view.rows, view.cols));
  }
  if (view.data == nullptr && !view.empty()) refuse("has elements but no data pointer");
}

}  // namespace samebits::io
