// The flags of every verb that computes, and what they become.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samebits/contract.hpp"
#include "samebits/engine.hpp"
#include "samebits/plan.hpp"
#include "world/agreement.hpp"
#include "world/world.hpp"

namespace samebits::tools {

struct ComputeFlags {
  std::string contract = "bf16-tree-v1";
  std::string engine = "cpu";
  std::string transport = "local";
  std::optional<double> timeout;  // seconds; where ranks are processes
  std::optional<int> device;      // none: the processes of a machine take one after the other
  std::string isa = "auto";
  int threads = 0;  // 0: as many as the process may run on
  std::string down = "auto";
  std::string weights = "auto";
  std::string split = "contiguous";
  std::string gradients = "auto";
  std::string exchange = "auto";
  int ranks_per_node = 0;
  std::string overlap = "auto";

  void add_to(CLI::App& verb);
};

// The world that --transport names. Throws for words that are legal and not built in (environment).
std::shared_ptr<const World> make_world(const ComputeFlags& flags);

// The flags, checked against what this build has.
struct Compute {
  Contract contract;
  Isa isa = Isa::automatic;
  int threads = 1;  // of all ranks of this machine together
  bool zigzag = false;
  DownCut down = DownCut::automatic;
  WeightCut weights = WeightCut::automatic;
  GradientReduction gradients = GradientReduction::automatic;
  CoverExchange exchange = CoverExchange::automatic;
  Overlap overlap = Overlap::automatic;
  std::string engine, transport, isa_name;        // as reports show them; isa_name is the cpu engine's
  std::optional<GpuDevice> device;                // of the cuda or hip engine
  std::shared_ptr<engine::Engine> device_engine;  // for all ranks; null: the cpu engine, one a rank
  std::shared_ptr<const World> world;             // of one process where ranks are threads
  std::shared_ptr<Transport> nccl;                // between the processes of the world; null: not wanted

  // Throws for an engine or a library that is not there (environment), and for instructions that this
  // processor lacks (refused). Without what `join` makes.
  explicit Compute(const ComputeFlags& flags, std::shared_ptr<const World> on = std::make_shared<World>());

  // Collective: makes `nccl` where the flags want it.
  void join();

  bool has_processes() const { return transport != "local"; }  // ranks are processes
  std::shared_ptr<engine::Engine> make_engine(int engine_threads) const;
  int threads_of_rank(int ranks) const;  // when the first `ranks` of the world, or of this process, compute
  int threads_of_process() const;        // when all of them do
  std::string engine_text() const;       // "cpu (avx512, 2 threads)", "cuda (NVIDIA H200, device 0)"
  std::string transport_text() const;    // "local", "mpi (Open MPI 4.1.4, 8 processes)"
  TokenShards shards(std::int64_t tokens, int cp) const;

  // Everything but the engine and the transport.
  PlanOptions plan_options(const Shape& shape, std::int64_t tokens, const Layout& layout,
                           bool backward) const;

  // What the ranks of a world must have been given alike.
  std::vector<AgreedField> agreed() const;

 private:
  ComputeFlags flags_;
};

// Runs a verb on every rank of the world that the flags name: World::run.
int run_verb(const ComputeFlags& flags, const std::function<int(const Compute&)>& body);

}  // namespace samebits::tools
