// The processes that play the ranks: one of them with threads as ranks, or those that mpirun started, a rank
// each. Rank 0 is the one that speaks: it prints, writes files, and its exit code is that of all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {

// A failure that every rank of the world throws by itself: nobody needs to be told of it.
class KnownToAll : public Error {
 public:
  using Error::Error;
};

// Its collective operations are called by every rank, in the same order.
class World {
 public:
  // `library`: what moves the bytes, as reports show it; empty for one process.
  explicit World(std::shared_ptr<Transport> transport = self_transport(), std::string library = {});

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool first() const { return rank() == 0; }
  const std::string& library() const { return library_; }
  const std::shared_ptr<Transport>& transport() const { return transport_; }  // of host memory

  // Of ranks 0 .. ranks - 1, how many run on this machine; at least 1.
  int ranks_here(int ranks) const;

  // This rank's place among those of this machine.
  int rank_here() const;

  // Collective. What every rank says, by rank.
  std::vector<std::string> gather(const std::string& mine) const;

  // Collective. Runs `body`, which calls nothing collective. When it failed anywhere, every rank throws
  // KnownToAll: its own failure, or that of the lowest rank which has one, with the rank's name.
  void together(const std::function<void()>& body) const;

  // Collective. Runs `body`, whose exit code counts on rank 0, and returns that code on every rank. A failure
  // becomes a line and an exit code; the other ranks are told, and end with a line that names this one.
  int run(const std::function<int()>& body) const;

 private:
  std::shared_ptr<Transport> transport_;
  std::string library_;
  std::vector<std::string> machines_;  // by rank
};

}  // namespace samebits::tools
