// What is going on, on stderr, for work that lasts: one rewriting line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace samebits::tools {

class Progress {
 public:
  // Silent until `quiet_seconds` have passed.
  explicit Progress(int steps, double quiet_seconds = 2.0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next step begins.
  void step(std::string_view what);

  // How far the current step is, when it is a long one.
  void share(double done);

 private:
  void show(std::string_view what);

  std::chrono::steady_clock::time_point begun_;
  int steps_;
  double quiet_seconds_;
  int current_ = 0;
  bool terminal_;
  std::string what_;
  std::chrono::steady_clock::time_point last_;  // when something was shown
  bool shown_ = false;
};

}  // namespace samebits::tools
