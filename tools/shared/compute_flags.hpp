// The flags of every verb that computes, and what they become.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "samebits/contract.hpp"
#include "samebits/engine.hpp"
#include "samebits/plan.hpp"

namespace samebits::tools {

struct ComputeFlags {
  std::string contract = "bf16-tree-v1";
  std::string engine = "cpu";
  std::string transport = "local";
  int device = 0;
  std::string isa = "auto";
  int threads = 0;  // 0: as many as the process may run on
  std::string down = "auto";
  std::string weights = "auto";
  std::string split = "contiguous";
  std::string gradients = "auto";
  std::string exchange = "auto";

  void add_to(CLI::App& verb);
};

// The flags, checked against what this build has.
struct Compute {
  Contract contract;
  Isa isa = Isa::automatic;
  int threads = 1;
  bool zigzag = false;
  DownCut down = DownCut::automatic;
  WeightCut weights = WeightCut::automatic;
  GradientReduction gradients = GradientReduction::automatic;
  CoverExchange exchange = CoverExchange::automatic;
  std::string engine, transport, isa_name;        // as reports show them; isa_name is the cpu engine's
  std::optional<CudaDevice> device;               // of the cuda engine
  std::shared_ptr<engine::Engine> device_engine;  // for all ranks; null: the cpu engine, one a rank

  // Throws for words that are legal and not built in or a device that is not there (environment), and for
  // instructions this processor lacks (refused).
  explicit Compute(const ComputeFlags& flags);

  std::shared_ptr<engine::Engine> make_engine(int engine_threads) const;
  std::string engine_text() const;  // "cpu (avx512, 2 threads)", "cuda (NVIDIA H200, device 0)"
  TokenShards shards(std::int64_t tokens, int cp) const;

  // Everything but the engine and the transport.
  PlanOptions plan_options(const Shape& shape, std::int64_t tokens, const Layout& layout,
                           bool backward) const;
};

}  // namespace samebits::tools
