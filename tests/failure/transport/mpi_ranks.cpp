// One rank of an MPI world that meets with what its arguments say. What becomes of it is written to
// FOLDER/RANK: its exit code, and the message of the failure that it saw.
//
// usage: mpirun -np N mpi_ranks FOLDER TIMEOUT what [RANK]
//   moves       uneven bytes, subgroups, messages of a few megabytes, all checked
//   no-bytes    a collective of no bytes in every kind of memory
//   computes    RANK comes late by three timeouts, alive
//   dies        RANK is killed between two exchanges
//   stops       RANK is stopped (SIGSTOP)
//   ends-late   RANK has done its part like all and ends half a timeout after the others
//   leaves      RANK ends while the others go on
//   gives-up    RANK aborts with a reason
//   cannot-post the second message of an exchange that RANK begins is refused by its MPI
//   cannot-tell, cannot-ask
//               RANK's MPI refuses what ranks tell each other beside the bytes
//   one-thread, no-copy
//               MPI begins, and is not what is needed
//   disagrees   RANK expects one byte more of everybody
//   goes-on     messages for a minute; FOLDER/begun.RANK says that they flow
//   backward    the block's backward on tp2+cp2, four ranks, again and again for a minute; FOLDER/begun.RANK
//               says that the first is done
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mpi_faults.hpp"
#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "support/rank_block.hpp"

namespace {

using namespace samebits;
namespace faults = test::mpi_faults;
using faults::Fault;

unsigned char byte_of(std::size_t round, std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<unsigned char>(round * 31 + from * 50 + to * 7 + i * 13);
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::internal, what);
}

// Every rank sends every other a message of its own size. `more`: what this rank wrongly expects.
void exchange(Transport& transport, std::size_t round, std::size_t most, std::size_t more = 0) {
  const auto ranks = static_cast<std::size_t>(transport.size()),
             me = static_cast<std::size_t>(transport.rank());
  const auto size = [&](std::size_t from, std::size_t to) {
    return (round * 7919 + from * 104729 + to * 1299709) % (most + 1);
  };
  std::vector<std::size_t> sends(ranks), receives(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    sends[r] = size(me, r), receives[r] = size(r, me) + (r != me ? more : 0);
  std::vector<unsigned char> out, in(std::accumulate(receives.begin(), receives.end(), std::size_t{1}), 0xEE);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < sends[r]; ++i) out.push_back(byte_of(round, me, r, i));
  }
  out.push_back(0);
  transport.all_to_all(out.data(), sends, in.data(), receives, MemorySpace::host, {});
  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < receives[r]; ++i, ++at)
      require(in[at] == byte_of(round, r, me, i), "other bytes came");
  }
  require(in[at] == 0xEE, "more bytes came");

  std::vector<std::size_t> bytes(ranks);
  for (std::size_t r = 0; r < ranks; ++r) bytes[r] = size(r, r);
  std::vector<unsigned char> all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{1}), 0xEE),
      mine(bytes[me] + 1);
  for (std::size_t i = 0; i < bytes[me]; ++i) mine[i] = byte_of(round, me, 0, i);
  transport.all_gather(mine.data(), all.data(), bytes, MemorySpace::host, {});
  at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < bytes[r]; ++i, ++at)
      require(all[at] == byte_of(round, r, 0, i), "other bytes came");
  }
  require(all[at] == 0xEE, "more bytes came");
}

void moves(Transport& world) {
  for (std::size_t round = 0; round < 200; ++round) exchange(world, round, 100);
  for (std::size_t round = 0; round < 6; ++round) exchange(world, round, 3 << 20);
  if (world.size() < 2) return;
  std::vector<int> half;
  for (int r = world.rank() % 2; r < world.size(); r += 2) half.push_back(r);
  const auto group = world.subgroup(half);
  for (std::size_t round = 0; round < 20; ++round) {
    exchange(*group, round, 5000);
    exchange(world, round, 50);
  }
}

// No GPU is needed to see that memory which the transport does not reach is refused, and that a device which
// does not answer is an error.
void move_no_bytes(Transport& world) {
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(world.size()));
  for (const MemorySpace space : {MemorySpace::host, MemorySpace::cuda, MemorySpace::hip}) {
    std::optional<ErrorCode> failure;
    try {
      world.all_gather(nullptr, nullptr, bytes, space, {});
    } catch (const Error& error) {
      failure = error.code();
    }
    require(world.reaches(space) ? !failure || failure == ErrorCode::environment
                                 : failure == ErrorCode::invalid_argument,
            "no bytes of some memory: another failure than it should be");
  }
}

// What was begun before a refusal must not write into buffers that are gone.
void post_in_part(Transport& world) {
  faults::begin(Fault::second_message);
  try {
    exchange(world, 2, 100000);
  } catch (const Error&) {
    require(faults::messages() == 1 && faults::cancelled() == 1,
            "not every message that was begun has been cancelled");
    throw;
  }
}

// each(round) for a minute. The round that `begins` is written down once it is done.
template <class Each>
void go_on(const Transport& world, const std::string& folder, std::size_t begins, const Each& each) {
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t round = 0; std::chrono::steady_clock::now() - begun < std::chrono::minutes(1); ++round) {
    each(round);
    if (round == begins) std::ofstream(folder + "/begun." + std::to_string(world.rank())) << "\n";
  }
}

void backward(const std::shared_ptr<Transport>& world, const std::string& folder) {
  test::RankBlock block(parse_layout("tp2+cp2"), world);
  block.forward();
  std::vector<std::uint16_t> first;
  go_on(*world, folder, 0, [&](std::size_t) {
    block.backward();
    if (first.empty()) first = block.results();
    require(block.results() == first, "a backward left other bits than the first");
  });
}

void play(const std::shared_ptr<Transport>& shared, const std::string& folder, const std::string& what,
          bool is_the_one, double timeout) {
  Transport& world = *shared;
  if (what == "moves") return moves(world);
  if (what == "no-bytes") return move_no_bytes(world);
  if (what == "goes-on")
    return go_on(world, folder, 20, [&](std::size_t round) { exchange(world, round, 100000); });
  if (what == "backward") return backward(shared, folder);
  exchange(world, 1, 100000);
  if (is_the_one) {
    if (what == "dies") kill(getpid(), SIGKILL);
    if (what == "stops") kill(getpid(), SIGSTOP);
    if (what == "leaves") return;
    if (what == "gives-up") {
      world.abort("the disk of this rank is full");
      throw Error(ErrorCode::bad_file, "the disk of this rank is full");
    }
    if (what == "cannot-post") return post_in_part(world);
    if (what == "cannot-tell" || what == "cannot-ask") {
      faults::begin(what == "cannot-tell" ? Fault::words : Fault::tests);
      std::this_thread::sleep_for(std::chrono::duration<double>(timeout / 2));
    }
    if (what == "computes") std::this_thread::sleep_for(std::chrono::duration<double>(3 * timeout));
  }
  exchange(world, 2, 100000, what == "disagrees" && is_the_one ? 1 : 0);
  exchange(world, 3, 100);
  if (what == "ends-late" && is_the_one)
    std::this_thread::sleep_for(std::chrono::duration<double>(timeout / 2));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string folder = argv[1], what = argv[3];
  const double timeout = std::atof(argv[2]);
  int code = 0;
  std::string message;
  int rank = -1;
  std::shared_ptr<Transport> world;
  try {
    if (what == "one-thread") faults::begin(Fault::one_thread);
    if (what == "no-copy") faults::begin(Fault::second_copy);
    world = mpi_transport({.timeout_seconds = timeout});
    rank = world->rank();
    play(world, folder, what, argc > 4 && rank == std::atoi(argv[4]), timeout);
  } catch (const Error& error) {
    code = error.code() == ErrorCode::disagreement ? 2 : 3;
    message = error.what();
    if (rank < 0 && (faults::copies() != 0 || !faults::is_at_end())) message += ", and MPI is left open";
  }
  std::ofstream(folder + "/" + std::to_string(rank)) << code << " " << message << "\n";
  world.reset();
  // Launchers end a job when its first process fails: the others are to have spoken by then.
  if (code != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  return code;
}
