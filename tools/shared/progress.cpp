#include "shared/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace samebits::tools {
namespace {

constexpr double kRewriteSeconds = 0.2;  // between two states of a line on a terminal
constexpr double kLineSeconds = 10.0;    // between two plain lines of one step

}  // namespace

Progress::Progress(int steps, double quiet_seconds)
    : begun_(std::chrono::steady_clock::now()),
      steps_(steps),
      quiet_seconds_(quiet_seconds),
      terminal_(::isatty(STDERR_FILENO) == 1),
      last_(begun_) {}

Progress::~Progress() {
  if (terminal_ && shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::step(std::string_view what) {
  ++current_;
  what_ = what;
  show(what);
}

void Progress::share(double done) {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_;
  if (since.count() >= (terminal_ ? kRewriteSeconds : kLineSeconds))
    show(fmt::format("{}: {:.0f} %", what_, 100 * done));
}

void Progress::show(std::string_view what) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - begun_;
  if (passed.count() < quiet_seconds_) return;
  const std::string line = fmt::format("[{}/{}] {:.0f} s  {}", current_, steps_, passed.count(), what);
  fmt::print(stderr, "{}", terminal_ ? "\r\x1b[K" + line : line + "\n");
  std::fflush(stderr);
  shown_ = true;
  last_ = now;
}

}  // namespace samebits::tools
