// A regular file seen as bytes, read-only, for as long as the object lives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace samebits::io {

class MappedFile {
 public:
  // Throws Error(bad_file) when the file is absent, unreadable, no regular file, or a Git LFS pointer.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace samebits::io
