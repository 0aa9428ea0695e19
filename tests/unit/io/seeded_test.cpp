#include "samebits/seeded.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "io/philox.hpp"
#include "unit/io/expect_error.hpp"

namespace samebits {
namespace {

// Naive: one element of the page's definition at a time.
std::uint16_t element(std::uint64_t seed, SeededTensor tensor, std::uint64_t i) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>((i / 4) >> 32),
                        static_cast<std::uint32_t>(seed >> 32), 0};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(tensor);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0], p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    const std::uint32_t n[4] = {
        static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    for (int j = 0; j < 4; ++j) c[j] = n[j];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const std::uint32_t w = c[i % 4];
  std::uint32_t t = 0;
  while (t < 24 && ((w >> t) & 1u) == 0) ++t;
  const std::uint32_t k = tensor == SeededTensor::x || tensor == SeededTensor::dy ? 127 : 121;
  return static_cast<std::uint16_t>(((w >> 31) << 15) | ((k - t) << 7) | ((w >> 24) & 0x7Fu));
}

TEST(Seeded, BeginsAsTheContractPageSays) {
  const struct {
    SeededTensor tensor;
    std::array<std::uint16_t, 4> words;
  } cases[] = {{SeededTensor::x, {0x3fe6, 0xbfe1, 0xbebc, 0xbe1b}},
               {SeededTensor::gate, {0xbcfd, 0xbc7a, 0x3c33, 0xbcd8}},
               {SeededTensor::up, {0xbc08, 0xbcfb, 0x3cb3, 0x3c37}},
               {SeededTensor::down, {0xb993, 0xbc07, 0x3c9e, 0xbca9}},
               {SeededTensor::dy, {0xbf30, 0xbe7f, 0x3f87, 0xbff3}}};
  for (const auto& c : cases) {
    std::array<std::uint16_t, 4> got{};
    fill_seeded(host_view(got.data(), 1, 4), {.tensor = c.tensor, .row_length = 4});
    EXPECT_EQ(got, c.words);
  }
}

// The known-answer vectors published with Philox (Random123, kat_vectors).
TEST(Seeded, PhiloxKnownAnswers) {
  io::PhiloxWords words;
  io::philox4x32_10(0, 0, {0, 0}, words);
  EXPECT_EQ(words.word[0][0], 0x6627e8d5u);
  EXPECT_EQ(words.word[1][0], 0xe169c58du);
  EXPECT_EQ(words.word[2][0], 0xbc57ac4cu);
  EXPECT_EQ(words.word[3][0], 0x9b00dbd8u);
}

TEST(Seeded, EveryElementIsWhatTheNaiveReadingSays) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef0u}}) {
    for (const SeededTensor tensor : {SeededTensor::x, SeededTensor::down}) {
      std::vector<std::uint16_t> got(7 * 131);
      fill_seeded(host_view(got.data(), 7, 131), {.seed = seed, .tensor = tensor, .row_length = 131});
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], element(seed, tensor, i)) << i;
    }
  }
}

TEST(Seeded, CountersPassThirtyTwoBits) {
  const std::int64_t length = std::int64_t{1} << 34;  // the next row begins at counter 2^32
  std::vector<std::uint16_t> got(2 * 300);
  fill_seeded(host_view(got.data(), 2, 300), {.seed = 5, .row_length = length, .first_col = length - 300});
  for (std::size_t i = 0; i < 300; ++i) {
    const auto col = static_cast<std::uint64_t>(length - 300) + i;
    ASSERT_EQ(got[i], element(5, SeededTensor::x, col));
    ASSERT_EQ(got[300 + i], element(5, SeededTensor::x, static_cast<std::uint64_t>(length) + col));
  }
}

TEST(Seeded, SlicesEqualTheWhole) {
  constexpr std::int64_t kRows = 9, kCols = 205;
  std::vector<std::uint16_t> whole(kRows * kCols);
  const SeededSlice all{.seed = 3, .tensor = SeededTensor::down, .row_length = kCols};
  fill_seeded(host_view(whole.data(), kRows, kCols), all);
  for (std::int64_t first_row : {0, 1, 5}) {
    for (std::int64_t first_col : {0, 1, 2, 3, 66, 204}) {
      for (std::int64_t cols : {std::int64_t{1}, std::int64_t{3}, kCols - first_col}) {
        if (first_col + cols > kCols) continue;
        SeededSlice slice = all;
        slice.first_row = first_row;
        slice.first_col = first_col;
        std::vector<std::uint16_t> packed(static_cast<std::size_t>(4 * cols), 0xDEAD), wide(4 * 500, 0xDEAD);
        fill_seeded(host_view(packed.data(), 4, cols), slice);
        View strided = host_view(wide.data(), 4, cols);
        strided.row_stride = 1;
        strided.col_stride = 4;
        fill_seeded(strided, slice);
        for (std::int64_t row = 0; row < 4; ++row) {
          for (std::int64_t col = 0; col < cols; ++col) {
            const auto expected =
                whole[static_cast<std::size_t>((first_row + row) * kCols + first_col + col)];
            ASSERT_EQ(packed[static_cast<std::size_t>(row * cols + col)], expected);
            ASSERT_EQ(wide[static_cast<std::size_t>(row + 4 * col)], expected);
          }
        }
        ASSERT_EQ(wide[static_cast<std::size_t>(4 * cols)], 0xDEAD) << "nothing is written beyond the view";
      }
    }
  }
}

TEST(Seeded, RefusesWhatIsNoSlice) {
  std::vector<std::uint32_t> memory(64);
  const View view = host_view(memory.data(), 2, 4);
  const auto refuse = [&](std::string_view named, const View& v, const SeededSlice& slice) {
    test::expect_error(ErrorCode::invalid_argument, {named}, [&] { fill_seeded(v, slice); });
  };
  refuse("row_length", view, {});
  refuse("row_length", view, {.row_length = 5, .first_col = 2});
  refuse("row_length", view, {.row_length = 5, .first_row = -1});
  refuse("64 bits", view, {.row_length = std::int64_t{1} << 40, .first_row = std::int64_t{1} << 40});
  refuse("bf16", host_view(memory.data(), 2, 4, DType::f32), {.row_length = 4});
  refuse("ids are 0 to 4", view, {.tensor = static_cast<SeededTensor>(5), .row_length = 4});
  refuse("odd address", host_view(reinterpret_cast<char*>(memory.data()) + 1, 2, 4), {.row_length = 4});
}

}  // namespace
}  // namespace samebits
