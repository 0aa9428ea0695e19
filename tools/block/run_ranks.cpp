#include "block/run_ranks.hpp"

#include <exception>
#include <mutex>
#include <utility>

#include "samebits/error.hpp"

namespace samebits::tools {

void run_ranks(const Layout& layout, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  if (layout.ranks() == 1) return body(0, nullptr);
  std::mutex mutex;
  std::exception_ptr cause;
  const auto keep = [&] {
    const std::lock_guard lock(mutex);
    if (!cause) cause = std::current_exception();
  };
  const auto observed = [&](int rank, std::shared_ptr<Transport> transport) {
    try {
      body(rank, std::move(transport));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::lost_rank) keep();
      throw;
    } catch (...) {
      keep();
      throw;
    }
  };
  try {
    run_local(layout.ranks(), observed);
  } catch (...) {
    if (cause) std::rethrow_exception(cause);
    throw;
  }
}

}  // namespace samebits::tools
