#include "world/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "shared/failure.hpp"
#include "shared/machine.hpp"

namespace samebits::tools {
namespace {

// mpirun kills what still runs as soon as one process has exited with a failure. So much time have the others
// to hear of it and to print their line; one that computes meanwhile is killed without.
constexpr std::chrono::milliseconds kLastWords{500};

// A failure as the ranks tell it to each other: nothing, or the code and the message.
std::string told(const std::optional<Error>& failure) {
  if (!failure) return {};
  return std::string(1, static_cast<char>('A' + static_cast<int>(failure->code()))) + failure->what();
}

KnownToAll heard(std::size_t rank, const std::string& text) {
  return {static_cast<ErrorCode>(text.front() - 'A'), fmt::format("rank {}: {}", rank, text.substr(1))};
}

}  // namespace

World::World(std::shared_ptr<Transport> transport, std::string library)
    : transport_(std::move(transport)), library_(std::move(library)), machines_(gather(host_name())) {}

int World::ranks_here(int ranks) const {
  const auto end = machines_.begin() + std::min(ranks, size());
  const auto count = std::count(machines_.begin(), end, machines_[static_cast<std::size_t>(rank())]);
  return std::max(1, static_cast<int>(count));
}

int World::rank_here() const {
  const auto mine = machines_.begin() + rank();
  return static_cast<int>(std::count(machines_.begin(), mine, *mine));
}

std::vector<std::string> World::gather(const std::string& mine) const {
  if (size() == 1) return {mine};
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t length = mine.size();
  std::vector<std::size_t> lengths(ranks);
  const std::vector<std::size_t> counts(ranks, sizeof length);
  transport_->all_gather(&length, lengths.data(), counts, MemorySpace::host, {});
  std::string all(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}), '\0');
  transport_->all_gather(mine.data(), all.data(), lengths, MemorySpace::host, {});
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t one : lengths) {
    texts.push_back(all.substr(at, one));
    at += one;
  }
  return texts;
}

void World::together(const std::function<void()>& body) const {
  std::optional<Error> mine;
  try {
    body();
  } catch (...) {
    mine = error_of(std::current_exception());
  }
  const std::vector<std::string> all = gather(told(mine));
  if (mine) throw KnownToAll(mine->code(), mine->what());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) throw heard(rank, all[rank]);
  }
}

int World::run(const std::function<int()>& body) const {
  return guarded([&] {
    try {
      const int code = body();
      return size() == 1 ? code : std::stoi(gather(std::to_string(code)).front());
    } catch (const KnownToAll&) {
      throw;
    } catch (...) {
      if (size() == 1) throw;
      const Error error = error_of(std::current_exception());
      if (error.code() == ErrorCode::lost_rank) {
        print_failure(error.what());  // it names the rank
      } else {
        print_failure(fmt::format("rank {} failed: {}", rank(), error.what()));
        transport_->abort(error.what());
      }
      std::this_thread::sleep_for(kLastWords);
      return static_cast<int>(exit_code_of(error.code()));
    }
  });
}

}  // namespace samebits::tools
