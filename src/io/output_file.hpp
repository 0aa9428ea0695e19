// A file that appears whole or not at all: written beside its target under another name, then renamed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_handle.hpp"

namespace samebits::io {

class OutputFile {
 public:
  // Every failure throws Error(bad_file) that names `path`.
  explicit OutputFile(const std::string& path);
  // Without commit() nothing is left behind.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t size);
  void commit();

 private:
  void write_through(const void* data, std::size_t size);
  void flush();
  [[noreturn]] void fail(int error) const;

  std::string path_;       // as given: what messages name
  std::string target_;     // symbolic links resolved
  std::string temporary_;  // empty: there is none to remove
  FileHandle file_;
  std::vector<char> buffer_;
};

// The whole text, the same way: reports are written with this.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace samebits::io
