// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace samebits::io {

class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  ~FileHandle() {
    if (is_open()) ::close(descriptor_);
  }
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // For those who must know whether closing failed.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

// "No such file or directory", thread-safe.
inline std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace samebits::io
