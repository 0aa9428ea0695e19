#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "io/file_handle.hpp"
#include "io/git_lfs.hpp"
#include "io/message.hpp"

namespace samebits::io {

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) fail_file(path, fmt::format("cannot be opened: {}", error_text(errno)));
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0)
    fail_file(path, fmt::format("cannot be read: {}", error_text(errno)));
  if (S_ISDIR(status.st_mode)) fail_file(path, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) fail_file(path, "is not a regular file");
  if (status.st_size == 0) return;  // nothing to map
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_file(path, fmt::format("cannot be mapped: {}", error_text(errno)));
  data_ = data;
  size_ = size;
  if (is_git_lfs_pointer(text())) {
    ::munmap(data_, size_);  // no destructor runs for what was not constructed
    fail_file(path, kGitLfsProblem);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace samebits::io
