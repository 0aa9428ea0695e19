#include "transport/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

namespace samebits::transport::nccl {
namespace {

constexpr int kOldest = 21800;  // where configurations have the fields of Config

// The loader's own words for what went wrong last.
std::string loader_error() {
  const char* const words = dlerror();
  return words != nullptr ? words : "no reason given";
}

std::vector<std::string> names_of(const std::string& path, MemorySpace space) {
  if (!path.empty()) return {path};
  if (space == MemorySpace::hip) return {"librccl.so.1", "libnccl.so.2"};
  return {"libnccl.so.2", "librccl.so.1"};
}

template <class Function>
void find(void* handle, const std::string& path, const char* name, Function& function) {
  void* const symbol = dlsym(handle, name);
  if (symbol == nullptr)
    throw Error(
        ErrorCode::environment,
        fmt::format("{} has no {}: it is no NCCL, or an old one (2.18 or later is needed)", path, name));
  function = reinterpret_cast<Function>(symbol);
}

}  // namespace

void Library::Closer::operator()(void* handle) const { dlclose(handle); }

ErrorCode code_of(Result result) {
  if (result == kUnhandledCudaError) return ErrorCode::environment;
  if (result == kInvalidArgument || result == kInvalidUsage) return ErrorCode::internal;
  return ErrorCode::lost_rank;
}

std::string version_words(int code) {
  const int major = code < 10000 ? code / 1000 : code / 10000,
            rest = code < 10000 ? code % 1000 : code % 10000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

std::shared_ptr<const Library> Library::load(const std::string& path, MemorySpace space) {
  std::string problems;
  for (const std::string& name : names_of(path, space)) {
    // Its threads may outlive the last communicator: the code stays mapped when the handle goes.
    Handle handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
    if (handle) return std::shared_ptr<const Library>(new Library(name, std::move(handle)));
    problems += (problems.empty() ? "" : "; ") + loader_error();
  }
  throw Error(ErrorCode::environment, fmt::format("no NCCL or RCCL could be loaded: {}", problems));
}

Library::Library(std::string path, Handle handle) : path_(std::move(path)), handle_(std::move(handle)) {
  const auto look_up = [&](const char* name, auto& function) { find(handle_.get(), path_, name, function); };
  look_up("ncclGetVersion", get_version);
  look_up("ncclGetErrorString", get_error_string);
  // The version first: of an old library that is the better reason.
  const Result result = get_version(&version_code_);
  if (result != kSuccess)
    throw Error(ErrorCode::environment,
                fmt::format("{} does not say its version: {}", path_, words(result, nullptr)));
  version_ = version_words(version_code_);
  if (version_code_ < kOldest) {
    throw Error(ErrorCode::environment, fmt::format("{} is version {}: {} or later is needed", path_,
                                                    version_, version_words(kOldest)));
  }
  look_up("ncclGetUniqueId", get_unique_id);
  look_up("ncclCommInitRankConfig", comm_init_rank_config);
  look_up("ncclCommFinalize", comm_finalize);
  look_up("ncclCommDestroy", comm_destroy);
  look_up("ncclCommAbort", comm_abort);
  look_up("ncclCommGetAsyncError", comm_get_async_error);
  look_up("ncclGroupStart", group_start);
  look_up("ncclGroupEnd", group_end);
  look_up("ncclSend", send);
  look_up("ncclRecv", recv);
  look_up("ncclAllGather", all_gather);
  look_up("ncclBroadcast", broadcast);
  look_up("ncclGetLastError", get_last_error);
  // The file behind the name, for people.
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(get_version), &info) != 0 && info.dli_fname != nullptr)
    path_ = info.dli_fname;
}

std::string Library::words(Result result, Comm* comm) const {
  const char* const text = get_error_string(result);
  std::string all = text != nullptr ? text : fmt::format("result {}", static_cast<int>(result));
  const char* const last = get_last_error != nullptr ? get_last_error(comm) : nullptr;
  if (last == nullptr || *last == 0) return all;
  for (const char* c = last; *c != 0; ++c) {
    if (c == last) all += " (";
    all += *c == '\n' ? ' ' : *c;
  }
  while (all.back() == ' ') all.pop_back();
  return all + ")";
}

}  // namespace samebits::transport::nccl
