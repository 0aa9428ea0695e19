#include "transport/nccl_meet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "samebits/error.hpp"

namespace samebits::transport::nccl {
namespace {

// What ranks tell each other over a bootstrap. Rank 0's id is everybody's.
struct Introduction {
  UniqueId id{};
  int version = 0;
  char problem[380] = {};
};

Meeting meet_over(Transport& bootstrap, const NcclOptions& options) {
  Meeting meeting;
  meeting.rank = bootstrap.rank();
  meeting.size = bootstrap.size();
  Introduction mine;
  try {
    meeting.library = Library::load(options.library, options.space);
    mine.version = meeting.library->version_code();
    if (meeting.rank == 0) mine.id = make_id(*meeting.library);
  } catch (const Error& error) {
    std::snprintf(mine.problem, sizeof mine.problem, "%s", error.what());
  }
  std::vector<Introduction> all(static_cast<std::size_t>(meeting.size));
  const std::vector<std::size_t> bytes(all.size(), sizeof mine);
  bootstrap.all_gather(&mine, all.data(), bytes, MemorySpace::host, {});
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].problem[0] != 0)
      throw Error(ErrorCode::environment,
                  fmt::format("rank {}: {}", r, static_cast<const char*>(all[r].problem)));
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r].version == all[0].version) continue;
    throw Error(ErrorCode::environment,
                fmt::format("rank {} has NCCL {}, rank 0 has {}: all ranks need the same", r,
                            version_words(all[r].version), version_words(all[0].version)));
  }
  meeting.id = all[0].id;
  return meeting;
}

// The id that rank 0 has written, once it is there.
UniqueId wait_for_file(const std::string& path, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    UniqueId id{};
    std::ifstream file(path, std::ios::binary);
    if (file && file.read(id.bytes, sizeof id.bytes) && file.peek() == std::ifstream::traits_type::eof())
      return id;
    if (std::chrono::steady_clock::now() > until) {
      throw Error(ErrorCode::lost_rank,
                  fmt::format("rank 0 has written no id to {} within {:.3g} s", path, seconds));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Meeting meet_at_file(const NcclOptions& options) {
  Meeting meeting{Library::load(options.library, options.space), options.rank, options.size};
  if (options.rank > 0) {
    meeting.id = wait_for_file(options.id_file, options.timeout_seconds);
    return meeting;
  }
  const UniqueId id = make_id(*meeting.library);
  return {meeting.library, options.rank, options.size, id,
          PublishedFile(options.id_file, id.bytes, sizeof id.bytes)};
}

void check(const NcclOptions& options) {
  const int ways =
      (options.bootstrap ? 1 : 0) + (options.unique_id.empty() ? 0 : 1) + (options.id_file.empty() ? 0 : 1);
  if (ways > 1)
    throw Error(ErrorCode::invalid_argument,
                "NCCL ranks meet by a bootstrap, a unique id or an id file: one of them");
  if (!(options.timeout_seconds > 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a timeout of {} seconds: it must be more than 0", options.timeout_seconds));
  }
  if (options.device && *options.device < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device {}: devices are counted from 0", *options.device));
  }
  if (options.bootstrap) {
    if (!options.bootstrap->reaches(MemorySpace::host))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a bootstrap moves host memory, {} does not", options.bootstrap->name()));
    return;
  }
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} of {} ranks: ranks count from 0", options.rank, options.size));
  }
  if (ways == 0 && options.size > 1) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} NCCL ranks need a bootstrap, a unique id or an id file to meet", options.size));
  }
  if (!options.unique_id.empty() && options.unique_id.size() != sizeof(UniqueId)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a unique id of {} bytes: NCCL's have {}",
                                                         options.unique_id.size(), sizeof(UniqueId)));
  }
}

}  // namespace

PublishedFile::PublishedFile(std::string path, const void* data, std::size_t bytes) {
  std::error_code problem;
  if (std::filesystem::exists(path, problem)) {
    throw Error(ErrorCode::bad_file,
                fmt::format("{} exists: an id file belongs to one run; remove it or name another", path));
  }
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  file.close();
  if (file) std::filesystem::rename(part, path, problem);
  if (!file || problem) {
    std::filesystem::remove(part, problem);
    throw Error(ErrorCode::bad_file, fmt::format("{} cannot be written", path));
  }
  path_ = std::move(path);
}

PublishedFile::~PublishedFile() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

UniqueId make_id(const Library& library) {
  UniqueId id{};
  const Result result = library.get_unique_id(&id);
  if (result != kSuccess)
    throw Error(ErrorCode::environment, fmt::format("making an NCCL id: {}", library.words(result, nullptr)));
  return id;
}

Meeting meet(const NcclOptions& options) {
  check(options);
  if (options.bootstrap) return meet_over(*options.bootstrap, options);
  if (!options.id_file.empty()) return meet_at_file(options);
  Meeting meeting{Library::load(options.library, options.space), options.rank, options.size};
  if (options.unique_id.empty()) {
    meeting.id = make_id(*meeting.library);
  } else {
    std::copy(options.unique_id.begin(), options.unique_id.end(), meeting.id.bytes);
  }
  return meeting;
}

}  // namespace samebits::transport::nccl
