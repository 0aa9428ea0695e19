#include "io/message.hpp"

#include <gtest/gtest.h>

namespace samebits::io {
namespace {

TEST(Message, StaysOnePrintableLineOfUtf8) {
  EXPECT_EQ(printable("plain name"), "plain name");
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
  EXPECT_EQ(printable("\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80"), "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // a line separator
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // a terminal's escape
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_LT(printable(std::string(100000, 'x')).size(), 500u);
}

}  // namespace
}  // namespace samebits::io
