#include "samebits/digest.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "samebits/safetensors.hpp"
#include "samebits/seeded.hpp"
#include "unit/io/expect_error.hpp"

namespace samebits {
namespace {

std::vector<std::uint16_t> seeded_x() {
  std::vector<std::uint16_t> x(32 * 4096);
  fill_seeded(host_view(x.data(), 32, 4096), {.seed = 0, .tensor = SeededTensor::x, .row_length = 4096});
  return x;
}

TEST(Digest, IsWhatTheContractPageSays) {
  const auto x = seeded_x();
  EXPECT_EQ(digest(host_view(static_cast<const void*>(x.data()), 32, 4096)),
            "de7641a76886c57e2f0832aa55cc6199");
}

TEST(Digest, DoesNotDependOnStridesOrAddress) {
  const auto x = seeded_x();
  const std::string expected = "de7641a76886c57e2f0832aa55cc6199";
  std::vector<std::uint16_t> wide(32 * 5000), transposed(x.size());
  std::vector<unsigned char> odd(2 * x.size() + 1);
  for (std::size_t row = 0; row < 32; ++row) {
    for (std::size_t col = 0; col < 4096; ++col) {
      wide[row * 5000 + col] = x[row * 4096 + col];
      transposed[col * 32 + row] = x[row * 4096 + col];
    }
  }
  std::memcpy(odd.data() + 1, x.data(), 2 * x.size());
  ConstView view = host_view(static_cast<const void*>(wide.data()), 32, 4096);
  view.row_stride = 5000;
  EXPECT_EQ(digest(view), expected);
  view = host_view(static_cast<const void*>(transposed.data()), 32, 4096);
  view.row_stride = 1;
  view.col_stride = 32;
  EXPECT_EQ(digest(view), expected);
  EXPECT_EQ(digest(host_view(static_cast<const void*>(odd.data() + 1), 32, 4096)), expected);
}

TEST(Digest, SaysShapeAndDtype) {
  const std::vector<std::uint32_t> zeros(64);
  const void* const data = zeros.data();
  const std::string digests[] = {digest(host_view(data, 4, 8)),
                                 digest(host_view(data, 8, 4)),
                                 digest(host_view(data, 4, 4, DType::f32)),
                                 digest(host_view(data, 4, 8, DType::f16)),
                                 digest(host_view(data, 0, 8)),
                                 digest(host_view(data, 0, 4))};
  for (std::size_t i = 0; i < std::size(digests); ++i) {
    EXPECT_EQ(digests[i].size(), 32u);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(digests[i], digests[j]) << i << " and " << j;
  }
}

TEST(Digest, OfAFileTensorIsThatOfItsView) {
  const auto x = seeded_x();
  SafetensorsTensor tensor{"x", "BF16", {32, 4096}, 0, 2 * x.size(), x.data()};
  EXPECT_EQ(digest(tensor), "de7641a76886c57e2f0832aa55cc6199");
  tensor.shape = {32, 64, 64};
  EXPECT_NE(digest(tensor), "de7641a76886c57e2f0832aa55cc6199");
}

TEST(Digest, RefusesDeviceMemoryAndMissingData) {
  ConstView view = host_view(static_cast<const void*>(nullptr), 2, 2);
  test::expect_error(ErrorCode::invalid_argument, {"no data"}, [&] { digest(view); });
  view.device.space = MemorySpace::cuda;
  test::expect_error(ErrorCode::invalid_argument, {"device"}, [&] { digest(view); });
}

}  // namespace
}  // namespace samebits
