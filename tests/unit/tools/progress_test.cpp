// Progress is one rewriting line on a terminal and plain lines elsewhere, and silent while work is short.
#include "shared/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace samebits::tools {
namespace {

TEST(Progress, PlainLinesWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress(2, 0.0);
    progress.step("tp1");
    progress.step("tp2");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, "[1/2] 0 s  tp1\n[2/2] 0 s  tp2\n");
}

TEST(Progress, SilentWhileWorkIsShort) {
  testing::internal::CaptureStderr();
  {
    Progress progress(2);
    progress.step("tp1");
    progress.share(0.5);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, OneRewritingLineOnATerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
    GTEST_SKIP() << "no pseudo-terminals here";
  const int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(screen, 0);
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  dup2(screen, STDERR_FILENO);
  {
    Progress progress(2, 0.0);
    progress.step("tp1");
    progress.step("tp2");
  }
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  const std::string expected = "\r\x1b[K[1/2] 0 s  tp1\r\x1b[K[2/2] 0 s  tp2\r\x1b[K";
  std::string text;
  pollfd ready{terminal, POLLIN, 0};
  while (text.size() < expected.size() && poll(&ready, 1, 1000) > 0) {  // it may come in parts
    char part[512];
    const ssize_t size = read(terminal, part, sizeof part);
    if (size <= 0) break;
    text.append(part, static_cast<std::size_t>(size));
  }
  for (const int file : {terminal, screen, saved}) close(file);
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace samebits::tools
