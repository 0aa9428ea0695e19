// The structures of DLPack that a consumer reads, versioned (1.x) and not. Their layout is the protocol's.
#pragma once

#include <cstdint>

namespace samebits::python::dlpack {

// Codes of DLDeviceType and DLDataTypeCode; other ones are refused by number.
inline constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11,
                              kCudaManaged = 13;
inline constexpr std::uint8_t kFloat = 2, kBfloat = 4;
inline constexpr std::uint64_t kReadOnly = 1;  // of Versioned::flags

struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct Unversioned {
  Tensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};

struct Versioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace samebits::python::dlpack
