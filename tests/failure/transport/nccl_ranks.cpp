// One rank, a process, of an NCCL group over the stand-in library, that meets with what its arguments say.
// The exit code says how it ended; a failure's message goes to stdout.
//
// usage: nccl_ranks LIBRARY ID_FILE RANK SIZE TIMEOUT what [THE_ONE]
//   moves       messages of every kind, and subgroups
//   block:NAME  the block on a layout, held against local transports in this process
//   dies        rank THE_ONE is killed between two exchanges
//   stops       THE_ONE is stopped (SIGSTOP)
//   leaves      THE_ONE ends while the others go on
//   finishes    THE_ONE ends long before the others, who need nothing more of it
//   late        THE_ONE never joins
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "support/rank_block.hpp"

namespace {

using namespace samebits;
using test::check_collectives;

void moves(Transport& world) {
  for (std::size_t round = 0; round < 30; ++round) check_collectives(world, round, 100);
  check_collectives(world, 1, 1 << 20);
  if (world.size() < 2) return;
  std::vector<int> half;
  for (int r = world.rank() % 2; r < world.size(); r += 2) half.push_back(r);
  const auto group = world.subgroup(half);
  for (std::size_t round = 0; round < 10; ++round) {
    check_collectives(*group, round, 5000);
    check_collectives(world, round, 50);
  }
}

void block(const std::string& name, std::shared_ptr<Transport> world) {
  const Layout layout = parse_layout(name);
  const auto rank = static_cast<std::size_t>(world->rank());
  if (test::rank_results(layout, std::move(world)) != test::local_results(layout)[rank])
    throw Error(ErrorCode::internal, "other bits than over local transports");
}

void play(const std::shared_ptr<Transport>& world, const std::string& what, bool is_the_one) {
  if (what == "moves") return moves(*world);
  if (what.rfind("block:", 0) == 0) return block(what.substr(6), world);
  for (std::size_t round = 0; round < 5; ++round) check_collectives(*world, round, 10000);
  if (what == "finishes") {
    if (is_the_one) return;
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const std::vector<std::size_t> nothing(static_cast<std::size_t>(world->size()));
    return world->all_gather(nullptr, nullptr, nothing, MemorySpace::host, {});
  }
  if (is_the_one) {
    if (what == "dies") kill(getpid(), SIGKILL);
    if (what == "stops") kill(getpid(), SIGSTOP);
    if (what == "leaves") return;
  }
  for (std::size_t round = 0; round < 5; ++round) check_collectives(*world, round, 10000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const std::string what = argv[6];
  NcclOptions options;
  options.library = argv[1];
  options.id_file = argv[2];
  options.rank = std::atoi(argv[3]);
  options.size = std::atoi(argv[4]);
  options.timeout_seconds = std::atof(argv[5]);
  options.space = MemorySpace::host;
  const bool is_the_one = argc > 7 && options.rank == std::atoi(argv[7]);
  if (what == "late" && is_the_one) return 0;
  try {
    play(nccl_transport(options), what, is_the_one);
    return 0;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == ErrorCode::lost_rank ? 3 : error.code() == ErrorCode::environment ? 4 : 5;
  }
}
