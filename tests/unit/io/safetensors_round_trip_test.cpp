// What is written is read back: bits, shapes, names, metadata, whatever the strides.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "samebits/digest.hpp"
#include "samebits/safetensors.hpp"
#include "samebits/seeded.hpp"
#include "unit/io/temp_folder.hpp"

namespace samebits {
namespace {

using test::TempFolder;

std::vector<std::uint16_t> counted(std::size_t n) {
  std::vector<std::uint16_t> values(n);
  std::iota(values.begin(), values.end(), std::uint16_t{1});
  return values;
}

std::vector<std::uint16_t> elements_of(const ConstView& view) {
  std::vector<std::uint16_t> out;
  const auto* const data = static_cast<const std::uint16_t*>(view.data);
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t col = 0; col < view.cols; ++col) {
      out.push_back(data[row * view.row_stride + col * view.col_stride]);
    }
  }
  return out;
}

TEST(SafetensorsRoundTrip, KeepsBitsNamesAndMetadata) {
  const TempFolder folder;
  const auto a = counted(6);
  const std::vector<std::uint32_t> b = {0x7FC00001u, 0x80000000u, 0xFF800000u};
  write_safetensors(folder.file("t.safetensors"),
                    {{"a", host_view(static_cast<const void*>(a.data()), 2, 3)},
                     {"b", host_view(static_cast<const void*>(b.data()), 3, 1, DType::f32)}},
                    {{"contract", "samebits/1;..."}, {"quote", "\"\\\n\xc3\xa9"}});
  const auto file = SafetensorsFile::open(folder.file("t.safetensors"));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "b") << "wide dtypes come first, so that all are aligned";
  EXPECT_EQ(file.at("a").dtype, "BF16");
  EXPECT_EQ(file.at("a").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.at("b").dtype, "F32");
  EXPECT_EQ(file.metadata().at("contract"), "samebits/1;...");
  EXPECT_EQ(file.metadata().at("quote"), "\"\\\n\xc3\xa9");
  EXPECT_EQ(elements_of(file.matrix("a").view), a);
  EXPECT_EQ(std::memcmp(file.at("b").data, b.data(), 12), 0);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(folder.entries().size(), 1u) << "only the file itself is left";
}

TEST(SafetensorsRoundTrip, DataIsAligned) {
  const TempFolder folder;
  const auto a = counted(3);
  for (const std::string& name : {std::string("x"), std::string("longer"), std::string("another one")}) {
    write_safetensors(folder.file("t"), {{name, host_view(static_cast<const void*>(a.data()), 1, 3)}});
    const auto file = SafetensorsFile::open(folder.file("t"));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensors()[0].data) % 8, 0u);
  }
}

TEST(SafetensorsRoundTrip, ReadsEveryStride) {
  const TempFolder folder;
  const auto values = counted(5 * 40000);
  const ConstView whole = host_view(static_cast<const void*>(values.data()), 5, 40000);
  ConstView transposed = whole;
  std::swap(transposed.rows, transposed.cols);
  std::swap(transposed.row_stride, transposed.col_stride);
  ConstView backwards = whole;
  backwards.data = values.data() + values.size() - 1;
  backwards.row_stride = -40000;
  backwards.col_stride = -1;
  ConstView repeated = whole;
  repeated.row_stride = 0;
  const std::vector<NamedTensor> tensors = {{"columns", whole.slice_cols(7, 30001)},
                                            {"transposed", transposed},
                                            {"backwards", backwards},
                                            {"repeated", repeated},
                                            {"none", whole.slice_rows(2, 2)},
                                            {"whole", whole}};
  write_safetensors(folder.file("t"), tensors);
  const auto file = SafetensorsFile::open(folder.file("t"));
  for (const NamedTensor& tensor : tensors) {
    EXPECT_EQ(elements_of(file.matrix(tensor.name).view), elements_of(tensor.view)) << tensor.name;
    EXPECT_EQ(digest(file.at(tensor.name)), digest(tensor.view)) << tensor.name;
  }
}

TEST(SafetensorsRoundTrip, NoTensorsAtAll) {
  const TempFolder folder;
  write_safetensors(folder.file("t"), {});
  EXPECT_TRUE(SafetensorsFile::open(folder.file("t")).tensors().empty());
}

TEST(SafetensorsRoundTrip, ReplacesAnOlderFileAndFollowsLinks) {
  const TempFolder folder;
  folder.write("real", "old");
  std::filesystem::create_symlink("real", folder.file("link"));
  write_safetensors(folder.file("link"), {});
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_TRUE(SafetensorsFile::open(folder.file("real")).tensors().empty());
  EXPECT_EQ(folder.entries().size(), 2u);
}

TEST(SafetensorsRoundTrip, MatricesOutliveTheFile) {
  const TempFolder folder;
  const auto values = counted(6);
  write_safetensors(folder.file("t"), {{"a", host_view(static_cast<const void*>(values.data()), 2, 3)}});
  const HostMatrix matrix = SafetensorsFile::open(folder.file("t")).matrix("a");
  std::filesystem::remove(folder.file("t"));
  EXPECT_EQ(elements_of(matrix.view), values);
}

TEST(SafetensorsRoundTrip, ReadsTheRecordedFixture) {
  const auto file = SafetensorsFile::open(SAMEBITS_FIXTURES "/hf_qwen3mlp_h200.safetensors");
  EXPECT_FALSE(file.tensors().empty());
  for (const SafetensorsTensor& tensor : file.tensors()) {
    EXPECT_EQ(digest(file.matrix(tensor).view), digest(tensor)) << tensor.name;
  }
}

}  // namespace
}  // namespace samebits
