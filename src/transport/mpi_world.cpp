#include "transport/mpi_world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "transport/mpi_check.hpp"

namespace samebits::transport {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a message: MPI counts with int
constexpr int kTag = 1;

std::size_t messages_of(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kMostBytes - 1) / kMostBytes);
}

// Gives the processor away for longer the longer nothing happens: ranks may share cores.
class Patience {
 public:
  void wait() {
    if (++turns_ < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(turns_ - 63, 20) * 25));
    }
  }
  void reset() { turns_ = 0; }

 private:
  int turns_ = 0;
};

bool is_truncation(int error) {
  int kind = MPI_SUCCESS;
  return error != MPI_SUCCESS && MPI_Error_class(error, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE;
}

// Of a message that came: -1, which no message has, where MPI does not know.
int bytes_of(const MPI_Status& status) {
  int bytes = 0;
  return MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS ? bytes : -1;
}

Clock::duration duration_of(double timeout_seconds) {
  if (timeout_seconds > 0)
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a timeout of {} seconds: it must be more than 0", timeout_seconds));
}

}  // namespace

MpiWorld::MpiWorld(const MpiOptions& options)
    : timeout_(duration_of(options.timeout_seconds)), data_(MPI_COMM_WORLD), control_(MPI_COMM_WORLD) {
  try {
    rank_ = data_.rank();
    size_ = data_.size();
    introduce();
    if (size_ > 1) pulse_ = std::thread([this] { pulse(); });
  } catch (...) {
    leave_mpi();
    throw;
  }
}

MpiWorld::~MpiWorld() {
  const bool together = size_ == 1 || say_goodbye();
  ending_ = true;
  if (pulse_.joinable()) pulse_.join();
  if (!together) leave_mpi();
}

// As it is: whatever is collective would wait for ranks that are somewhere else by now, or gone.
void MpiWorld::leave_mpi() noexcept {
  control_.leave();
  data_.leave();
  session_.leave();
}

// Who runs where, so that a lost rank has a name.
void MpiWorld::introduce() {
  std::array<char, 64> mine{};
  char host[48] = {};
  gethostname(host, sizeof host - 1);
  fmt::format_to_n(mine.data(), mine.size() - 1, "{}, process {}", host, getpid());
  std::vector<char> all(mine.size() * static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(),
                          static_cast<int>(mine.size()), MPI_BYTE, control_.get()),
            "asking who takes part");
  peers_.resize(static_cast<std::size_t>(size_));
  outbox_.resize(peers_.size());
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].where = all.data() + r * mine.size();
    peers_[r].heard = Clock::now();
  }
}

std::string MpiWorld::name_of(int rank) const {
  return fmt::format("rank {} ({})", rank, peers_[static_cast<std::size_t>(rank)].where);
}

void MpiWorld::exchange(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing) {
  std::vector<int> expected;  // what each receive must bring, in the order of the requests
  for (const Incoming& in : incoming) {
    for (std::size_t m = 0; m < messages_of(in.bytes); ++m)
      expected.push_back(static_cast<int>(std::min(kMostBytes, in.bytes - m * kMostBytes)));
  }
  std::size_t left = expected.size();
  for (const Outgoing& out : outgoing) left += messages_of(out.bytes);
  std::vector<MPI_Request> requests;
  std::vector<int> ranks;  // of each request
  // Nothing is allocated while requests are on their way: whoever throws then must give them up first.
  requests.reserve(left);
  ranks.reserve(left);
  std::vector<int> done(left);
  std::vector<MPI_Status> statuses(left);
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw Error(ErrorCode::lost_rank, failure_);
    try {
      post_locked(incoming, outgoing, requests, ranks);
    } catch (const Error& error) {
      give_up_locked(requests, error.code(), fmt::format("{}: {}", name_of(rank_), error.what()));
    }
  }
  for (Patience patience; left > 0;) {
    {
      const std::lock_guard lock(mutex_);
      int count = 0;
      const int code = MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, done.data(),
                                    statuses.data());
      for (int i = 0; i < count; ++i) {
        const auto index = static_cast<std::size_t>(done[static_cast<std::size_t>(i)]);
        const MPI_Status& status = statuses[static_cast<std::size_t>(i)];
        const int error = code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS;
        const bool came = index < expected.size() && error == MPI_SUCCESS;
        if (is_truncation(error) || (came && bytes_of(status) != expected[index])) {
          give_up_locked(
              requests, ErrorCode::disagreement,
              fmt::format("ranks {} and {} disagree about the bytes of a collective", rank_, ranks[index]));
        }
        if (error != MPI_SUCCESS) {
          give_up_locked(requests, ErrorCode::lost_rank,
                         fmt::format("{} cannot be reached", name_of(ranks[index])));
        }
        peers_[static_cast<std::size_t>(ranks[index])].heard = Clock::now();
        --left;
      }
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        give_up_locked(requests, ErrorCode::lost_rank, "MPI no longer moves bytes");
      if (count > 0) patience.reset();
      if (left > 0) {
        try {
          check_health_locked(requests, ranks);
        } catch (const Error& error) {
          give_up_locked(requests, error.code(), error.what());
        }
      }
    }
    if (left > 0) patience.wait();
  }
}

// Receives first, then sends; a message for each piece of kMostBytes, and one of no bytes where there is
// nothing to move, so that ranks which disagree find out.
void MpiWorld::post_locked(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing,
                           std::vector<MPI_Request>& requests, std::vector<int>& ranks) {
  const auto post = [&](int rank, std::size_t bytes, const auto& begin) {
    for (std::size_t m = 0; m < messages_of(bytes); ++m) {
      const std::size_t at = m * kMostBytes;
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(begin(at, static_cast<int>(std::min(kMostBytes, bytes - at)), &request), "moving bytes");
      requests.push_back(request);
      ranks.push_back(rank);
    }
  };
  for (const Incoming& in : incoming) {
    post(in.rank, in.bytes, [&](std::size_t at, int count, MPI_Request* request) {
      return MPI_Irecv(static_cast<unsigned char*>(in.data) + at, count, MPI_BYTE, in.rank, kTag, data_.get(),
                       request);
    });
  }
  for (const Outgoing& out : outgoing) {
    post(out.rank, out.bytes, [&](std::size_t at, int count, MPI_Request* request) {
      return MPI_Isend(static_cast<const unsigned char*>(out.data) + at, count, MPI_BYTE, out.rank, kTag,
                       data_.get(), request);
    });
  }
}

void MpiWorld::check_health_locked(std::span<const MPI_Request> requests, std::span<const int> ranks) const {
  if (!failure_.empty()) throw Error(ErrorCode::lost_rank, failure_);
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    const Peer& peer = peers_[static_cast<std::size_t>(ranks[i])];
    if (peer.lost) throw Error(ErrorCode::lost_rank, fmt::format("{} cannot be reached", name_of(ranks[i])));
    if (peer.gone) {
      throw Error(ErrorCode::lost_rank, fmt::format("{} ended while others wait for it", name_of(ranks[i])));
    }
    if (now - peer.heard > timeout_) {
      throw Error(
          ErrorCode::lost_rank,
          fmt::format("{} has given no sign of life for {:.3g} s: it died, stalled or cannot be reached",
                      name_of(ranks[i]), std::chrono::duration<double>(now - peer.heard).count()));
    }
  }
}

void MpiWorld::tell_failure_locked() {
  Message message{Word::give_up, {}};
  std::memcpy(message.reason, failure_.data(), std::min(failure_.size(), sizeof message.reason - 1));
  tell_all_locked(message, std::chrono::milliseconds(300));
}

// The others learn why, no buffer of the caller is written any more, and MPI is left alone. What MPI says to
// being told so changes nothing.
void MpiWorld::give_up_locked(std::vector<MPI_Request>& requests, ErrorCode code, const std::string& reason) {
  const bool known = !failure_.empty();
  if (!known) {
    failure_ = reason;
    tell_failure_locked();
  }
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    int over = 0;
    static_cast<void>(MPI_Cancel(&request));
    static_cast<void>(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
    if (over == 0 && request != MPI_REQUEST_NULL) static_cast<void>(MPI_Request_free(&request));
  }
  stopped_ = true;
  throw Error(code, reason);
}

void MpiWorld::abort(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = fmt::format("{} gave up: {}", name_of(rank_), reason);
    if (stopped_ || size_ == 1) return;
    tell_failure_locked();
    stopped_ = true;
  } catch (...) {  // an abort that fails leaves nothing more to do
  }
}

}  // namespace samebits::transport
