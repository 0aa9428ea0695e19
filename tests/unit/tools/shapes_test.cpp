#include "shared/shapes.hpp"

#include <gtest/gtest.h>

#include "samebits/error.hpp"

namespace samebits::tools {
namespace {

TEST(Shapes, NamesAndNumbers) {
  EXPECT_EQ(parse_shape("qwen3-0.6b").shape, (Shape{1024, 3072}));
  EXPECT_EQ(parse_shape("qwen3-1.7b").shape, (Shape{2048, 6144}));
  EXPECT_EQ(parse_shape("qwen3-4b").shape, (Shape{2560, 9728}));
  EXPECT_EQ(parse_shape("qwen3-8b").shape, (Shape{4096, 12288}));
  EXPECT_EQ(parse_shape("qwen3-14b").shape, (Shape{5120, 17408}));
  EXPECT_EQ(parse_shape("qwen3-32b").shape, (Shape{5120, 25600}));
  EXPECT_EQ(parse_shape("64x208").shape, (Shape{64, 208}));
}

TEST(Shapes, AnythingElseIsRefused) {
  for (const char* text : {"", "x", "64", "64x", "x208", "0x208", "64x0", "-1x5", "64x208x2", "64 x208",
                           "qwen3-9b", "64x9223372036854775808"}) {
    EXPECT_THROW(parse_shape(text), Error) << text;
  }
}

TEST(Shapes, CountsFit63Bits) {
  EXPECT_EQ(parse_count("--tokens", "0"), 0);
  EXPECT_EQ(parse_count("--tokens", "9223372036854775807"), 9223372036854775807);
  for (const char* text : {"", "-1", "1.5", "1e3", "9223372036854775808", "7 ", "0x10"}) {
    EXPECT_THROW(parse_count("--tokens", text), Error) << text;
  }
}

TEST(Shapes, SizesWhoseProductsOverflowAreRefused) {
  EXPECT_NO_THROW(check_sizes({4096, 12288}, 1 << 20));
  EXPECT_NO_THROW(check_sizes({4096, 12288}, 0));
  EXPECT_THROW(check_sizes({4096, 12288}, std::int64_t{1} << 50), Error);
  EXPECT_THROW(check_sizes({std::int64_t{1} << 31, std::int64_t{1} << 31}, 1), Error);
}

TEST(Shapes, Lists) {
  EXPECT_EQ(split_list("1,8,32"), (std::vector<std::string>{"1", "8", "32"}));
  EXPECT_EQ(split_list("tp2,,x"), (std::vector<std::string>{"tp2", "", "x"}));
}

}  // namespace
}  // namespace samebits::tools
