// Legal files that are unlike those samebits writes.
#include "io/safetensors_parser.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/io/safetensors_bytes.hpp"
#include "unit/io/temp_folder.hpp"

namespace samebits {
namespace {

using test::as_bytes;
using test::safetensors_bytes;

TEST(SafetensorsParser, KnowsEveryDtypeBySize) {
  const struct {
    const char* dtype;
    int bytes_of_8;
  } cases[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
               {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},
               {"U32", 32}, {"F32", 32}, {"I64", 64},    {"U64", 64},    {"F64", 64},
               {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8}};
  for (const auto& c : cases) {
    const std::string header = std::string("{\"t\":{\"dtype\":\"") + c.dtype +
                               "\",\"shape\":[2,4],\"data_offsets\":[0," + std::to_string(c.bytes_of_8) +
                               "]}}";
    const std::string file =
        safetensors_bytes(header, std::string(static_cast<std::size_t>(c.bytes_of_8), 'x'));
    const auto contents = io::parse_safetensors(as_bytes(file), "file");
    ASSERT_EQ(contents.tensors.size(), 1u);
    EXPECT_EQ(contents.tensors[0].dtype, c.dtype);
  }
}

TEST(SafetensorsParser, TakesAnyOrderScalarsAndEmptyTensors) {
  const std::string file = safetensors_bytes(
      "{\"b\" : {\"data_offsets\":[2,6], \"shape\":[], \"dtype\":\"F32\"},\n"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"none\":{\"dtype\":\"I64\",\"shape\":[3,0,5],\"data_offsets\":[2,2]},"
      "\"__metadata__\":{}}   ",
      "xyabcd");
  const auto contents = io::parse_safetensors(as_bytes(file), "file");
  ASSERT_EQ(contents.tensors.size(), 3u);
  EXPECT_EQ(contents.tensors[0].name, "a");
  EXPECT_EQ(contents.tensors[1].name, "none");
  EXPECT_EQ(contents.tensors[2].name, "b");
  EXPECT_TRUE(contents.tensors[2].shape.empty());
  EXPECT_EQ(std::memcmp(contents.tensors[2].data, "abcd", 4), 0);
}

TEST(SafetensorsParser, NamesAreUnicodeWithEscapes) {
  const std::string file =
      safetensors_bytes(R"({"\u00e9\n\u0000":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})");
  const auto contents = io::parse_safetensors(as_bytes(file), "file");
  EXPECT_EQ(contents.tensors[0].name, std::string("\xc3\xa9\n\0", 4));
}

TEST(SafetensorsReader, OddAddressesAreCopiedToBeMatrices) {
  const test::TempFolder folder;
  for (std::size_t padding = 0; padding < 4; ++padding) {
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                               R"("b":{"dtype":"BF16","shape":[2,1,2],"data_offsets":[1,9]},)"
                               R"("c":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})" +
                               std::string(padding, ' ');
    const auto file = SafetensorsFile::open(folder.write("t", safetensors_bytes(header, "x12345678abcd")));
    const HostMatrix b = file.matrix("b"), c = file.matrix("c");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.view.data) % 2, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.view.data) % 4, 0u);
    EXPECT_EQ(b.view.rows, 2);
    EXPECT_EQ(b.view.cols, 2);
    EXPECT_EQ(c.view.rows, 1);
    EXPECT_EQ(std::memcmp(b.view.data, "12345678", 8), 0);
    EXPECT_EQ(std::memcmp(c.view.data, "abcd", 4), 0);
    EXPECT_EQ(b.view.data == file.at("b").data, reinterpret_cast<std::uintptr_t>(file.at("b").data) % 2 == 0)
        << "copied only when it must be";
  }
}

}  // namespace
}  // namespace samebits
