#include "io/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "io/message.hpp"

namespace samebits::io {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Where the bytes shall lie in the end. Renaming over a device or a pipe would replace it, so they are
// refused.
std::string resolved_target(const std::string& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (std::filesystem::is_directory(status)) fail_file(path, "cannot be written: is a folder, not a file");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail_file(path, "cannot be written: is not a regular file");
  }
  if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, failure))) return path;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, failure);
  return failure ? path : real.string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), target_(resolved_target(path)) {
  // Threads of one process may write one path: each takes a name of its own, and the last rename stands.
  for (int attempt = 0; attempt < 1000 && !file_.is_open(); ++attempt) {
    std::string name = fmt::format("{}.tmp-{}", target_, ::getpid());
    if (attempt > 0) name += fmt::format("-{}", attempt);
    file_ = FileHandle(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_.is_open()) {
      temporary_ = name;
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (!file_.is_open()) {
    const int error = errno;
    fail_file(path_, fmt::format("cannot be written: {} (its folder {} must exist and be writable)",
                                 error_text(error), printable(folder_of(target_))));
  }
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error) const {
  fail_file(path_, fmt::format("cannot be written: {}", error_text(error)));
}

void OutputFile::write(const void* data, std::size_t size) {
  if (size >= kBufferBytes) {
    flush();
    write_through(data, size);
    return;
  }
  if (buffer_.size() + size > kBufferBytes) flush();
  const char* const bytes = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + size);
}

void OutputFile::write_through(const void* data, std::size_t size) {
  const char* rest = static_cast<const char*>(data);
  while (size > 0) {
    const ::ssize_t written = ::write(file_.get(), rest, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(errno);
    }
    rest += written;
    size -= static_cast<std::size_t>(written);
  }
}

void OutputFile::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::commit() {
  flush();
  if (::fsync(file_.get()) != 0) fail(errno);
  if (::close(file_.release()) != 0) fail(errno);  // network file systems report here
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  // The new name should outlive a power cut too; some file systems cannot sync a folder, and that is no
  // failure.
  const FileHandle folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) ::fsync(folder.get());
}

void write_text_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace samebits::io
