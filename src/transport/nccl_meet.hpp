// How ranks that know nothing of each other yet come to one id.
#pragma once

#include <memory>
#include <string>

#include "samebits/transport.hpp"
#include "transport/nccl_library.hpp"

namespace samebits::transport::nccl {

// A file that one rank wrote for the others, removed with the object.
class PublishedFile {
 public:
  PublishedFile() = default;
  PublishedFile(std::string path, const void* data, std::size_t bytes);
  ~PublishedFile();
  PublishedFile(PublishedFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PublishedFile& operator=(PublishedFile&&) = delete;

 private:
  std::string path_;  // empty: none
};

struct Meeting {
  std::shared_ptr<const Library> library;
  int rank = 0, size = 1;
  UniqueId id{};
  PublishedFile file{};  // to be kept until all have joined
};

// By what the options name: a bootstrap, an id, a file, or nothing for a rank alone. Over a bootstrap all
// ranks refuse together where one has no library, or another version.
Meeting meet(const NcclOptions& options);

UniqueId make_id(const Library& library);

}  // namespace samebits::transport::nccl
