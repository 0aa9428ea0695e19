// A matrix that the command owns: packed, aligned for vectors, its memory untouched until it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "samebits/view.hpp"

namespace samebits::tools {

class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16)
      : data_(::operator new(bytes_of(rows, cols, dtype), kAlignment)),
        rows_(rows),
        cols_(cols),
        dtype_(dtype) {}

  View view() { return host_view(data_.get(), rows_, cols_, dtype_); }
  ConstView view() const { return host_view(static_cast<const void*>(data_.get()), rows_, cols_, dtype_); }
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ * cols_) * size_of(dtype_); }

  // Every element becomes a NaN that no contract stores, so that what is then left unwritten shows as
  // different.
  void poison() {
    if (data_) std::memset(data_.get(), 0xFF, bytes());
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* data) const { ::operator delete(data, kAlignment); }
  };
  static std::size_t bytes_of(std::int64_t rows, std::int64_t cols, DType dtype) {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
    return bytes == 0 ? 1 : bytes;  // a tensor of no tokens still has an address
  }

  std::unique_ptr<void, Free> data_;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  DType dtype_ = DType::bf16;
};

}  // namespace samebits::tools
