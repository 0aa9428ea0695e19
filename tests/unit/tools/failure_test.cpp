#include "shared/failure.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace samebits::tools {
namespace {

TEST(Failure, ExitCodesAreThoseOfTheDesign) {
  EXPECT_EQ(exit_code_of(ErrorCode::invalid_argument), 2);
  EXPECT_EQ(exit_code_of(ErrorCode::bad_file), 2);
  EXPECT_EQ(exit_code_of(ErrorCode::refused), 2);
  EXPECT_EQ(exit_code_of(ErrorCode::disagreement), 2);
  EXPECT_EQ(exit_code_of(ErrorCode::environment), 3);
  EXPECT_EQ(exit_code_of(ErrorCode::out_of_memory), 3);
  EXPECT_EQ(exit_code_of(ErrorCode::lost_rank), 3);
}

int thrown(const std::function<void()>& thrower, std::string& text) {
  testing::internal::CaptureStderr();
  const int code = guarded([&]() -> int {
    thrower();
    return 0;
  });
  text = testing::internal::GetCapturedStderr();
  return code;
}

TEST(Failure, WhateverIsThrownBecomesOneLine) {
  std::string text;
  EXPECT_EQ(thrown([] { fail_usage("one\ntwo\tthree\n"); }, text), 2);
  EXPECT_EQ(text, "samebits: one two three\n");
  EXPECT_EQ(thrown([] { fail_environment("no device"); }, text), 3);
  EXPECT_EQ(text, "samebits: no device\n");
  EXPECT_EQ(thrown([] { throw std::bad_alloc(); }, text), 3);
  EXPECT_EQ(text.find("samebits: out of memory"), 0u);
  EXPECT_EQ(thrown([] { throw std::length_error("vector"); }, text), 3);
  EXPECT_EQ(thrown([] { throw std::runtime_error("broken"); }, text), 3);
  EXPECT_EQ(text, "samebits: internal error: broken\n");
}

}  // namespace
}  // namespace samebits::tools
