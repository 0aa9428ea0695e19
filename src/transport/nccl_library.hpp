// libnccl.so.2 or librccl.so.1, loaded at run time.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "samebits/error.hpp"
#include "samebits/memory.hpp"
#include "transport/nccl_abi.hpp"

namespace samebits::transport::nccl {

class Library {
 public:
  // `path` alone, or where it is empty the names that go with the memory space, in order. Throws
  // Error(environment): not found, a function missing, too old.
  static std::shared_ptr<const Library> load(const std::string& path, MemorySpace space);

  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }  // "2.27.3"
  int version_code() const { return version_code_; }

  // "unhandled system error (what the library last logged)"
  std::string words(Result result, Comm* comm) const;

  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*comm_init_rank_config)(Comm**, int ranks, UniqueId, int rank, Config*) = nullptr;
  Result (*comm_finalize)(Comm*) = nullptr;
  Result (*comm_destroy)(Comm*) = nullptr;
  Result (*comm_abort)(Comm*) = nullptr;
  Result (*comm_get_async_error)(Comm*, Result*) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*send)(const void*, std::size_t, DataType, int peer, Comm*, Stream) = nullptr;
  Result (*recv)(void*, std::size_t, DataType, int peer, Comm*, Stream) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, DataType, Comm*, Stream) = nullptr;
  Result (*broadcast)(const void*, void*, std::size_t, DataType, int root, Comm*, Stream) = nullptr;
  const char* (*get_error_string)(Result) = nullptr;
  const char* (*get_last_error)(Comm*) = nullptr;

 private:
  struct Closer {
    void operator()(void* handle) const;
  };
  using Handle = std::unique_ptr<void, Closer>;

  Library(std::string path, Handle handle);

  std::string path_;
  Handle handle_;
  int version_code_ = 0;
  std::string version_;
};

// What a result that is no success is to a caller: the machine's fault, ours, or another rank's.
ErrorCode code_of(Result result);

// ncclGetVersion's number in words: 2804 is 2.8.4, 21803 is 2.18.3.
std::string version_words(int code);

}  // namespace samebits::transport::nccl
