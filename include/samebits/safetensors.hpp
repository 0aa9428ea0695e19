// Safetensors files, read where they lie and written whole or not at all. A file that is not what it claims,
// or cannot be written, throws Error(bad_file): one line that names it and the culprit.
//
//   const auto file = SafetensorsFile::open("x.safetensors");
//   const HostMatrix x = file.matrix("x");
//   write_safetensors("y.safetensors", {{"y", y}}, {{"contract", canonical(contract)}});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "samebits/export.hpp"
#include "samebits/view.hpp"

namespace samebits {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;                // as the format spells it: "BF16", "F32", "I64", ...
  std::vector<std::int64_t> shape;  // row-major
  std::uint64_t begin = 0;          // bytes [begin, end) of the file's data section
  std::uint64_t end = 0;
  const void* data = nullptr;  // those bytes; the format promises no alignment
  std::uint64_t bytes() const { return end - begin; }
};

// A matrix and whatever must stay alive for it: a mapped file, or a copy.
struct HostMatrix {
  ConstView view;
  std::shared_ptr<const void> owner;
};

// Copies share one mapping, and so does every HostMatrix made from it.
class SafetensorsFile {
 public:
  SAMEBITS_API static SafetensorsFile open(const std::string& path);

  SAMEBITS_API const std::string& path() const;
  SAMEBITS_API std::span<const SafetensorsTensor> tensors() const;  // in the order of their data
  SAMEBITS_API const std::map<std::string, std::string>& metadata() const;

  SAMEBITS_API const SafetensorsTensor* find(std::string_view name) const;  // null when there is none
  SAMEBITS_API const SafetensorsTensor& at(std::string_view name) const;    // throws, naming those there are

  // A BF16, F16 or F32 tensor, in place where its address is aligned and copied where it is not. Leading axes
  // become rows: [a, b, c] is a*b x c, [n] is 1 x n, a scalar 1 x 1.
  SAMEBITS_API HostMatrix matrix(const SafetensorsTensor& tensor) const;
  HostMatrix matrix(std::string_view name) const { return matrix(at(name)); }

 private:
  struct Contents;
  explicit SafetensorsFile(std::shared_ptr<const Contents> contents);
  std::shared_ptr<const Contents> contents_;
};

// As digest() of a view (samebits/digest.hpp), for any dtype and rank: "bf16:32x4096\n" and the bytes.
SAMEBITS_API std::string digest(const SafetensorsTensor& tensor);

struct NamedTensor {
  std::string name;
  ConstView view;  // host memory, any strides; stored as [rows, cols]
};

// Written beside `path` and renamed. Tensors are ordered as the format's own library does: wide dtypes first,
// then names.
SAMEBITS_API void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata = {});

}  // namespace samebits
