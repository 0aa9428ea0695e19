#include "compute/compute_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/engine.hpp"
#include "samebits/transport.hpp"
#include "samebits/words.hpp"
#include "shared/failure.hpp"
#include "shared/machine.hpp"

namespace samebits::tools {
namespace {

constexpr std::array<Word<Isa>, 4> kIsaWords{
    {{"auto", Isa::automatic}, {"plain", Isa::plain}, {"avx2", Isa::avx2}, {"avx512", Isa::avx512}}};

template <class Choice, std::size_t N>
std::vector<std::string> texts_of(const std::array<Word<Choice>, N>& words) {
  std::vector<std::string> texts;
  for (const Word<Choice>& word : words) texts.emplace_back(word.text);
  return texts;
}

// CLI11 has checked that the word is one of them.
template <class Choice, std::size_t N>
Choice choose(const std::string& text, const std::array<Word<Choice>, N>& words) {
  const std::optional<Choice> choice = choice_of(words, text);
  if (!choice) fail_usage("unknown word '" + text + "'");
  return *choice;
}

std::string engines_here() {
  return fmt::format("cpu{}{}", cuda_status().built ? ", cuda" : "", hip_status().built ? ", hip" : "");
}

// The one asked for, or the machine's devices in turn.
GpuDevice usable_device(const std::string& engine, const GpuStatus& status, const std::optional<int>& index,
                        int turn) {
  if (!status.built)
    fail_environment(
        fmt::format("--engine {0}: this build has no {0} engine; engines here: {1}", engine, engines_here()));
  if (!status.problem.empty())
    fail_environment(
        fmt::format("--engine {}: {} on this machine; --engine cpu runs anywhere", engine, status.problem));
  if (!index) return status.devices[static_cast<std::size_t>(turn) % status.devices.size()];
  for (const GpuDevice& device : status.devices) {
    if (device.index == *index) return device;
  }
  fail_environment(fmt::format("--engine {} --device {}: this machine has {} such device{}, counted from 0",
                               engine, *index, status.devices.size(), status.devices.size() == 1 ? "" : "s"));
}

}  // namespace

void ComputeFlags::add_to(CLI::App& verb) {
  const char* group = "What computes";
  const auto word = [&](const char* flag, std::string& value, std::vector<std::string> words,
                        const char* help) {
    verb.add_option(flag, value, help)
        ->check(CLI::IsMember(std::move(words)))
        ->capture_default_str()
        ->group(group);
  };
  verb.add_option("--contract", contract,
                  "preset, preset with fields (sm90-v1,node=bf16) or canonical string")
      ->capture_default_str()
      ->group(group);
  word("--engine", engine, {"cpu", "cuda", "hip"}, "what makes the nodes");
  verb.add_option(
          "--device", device,
          "of the cuda or hip engine, as its runtime counts (0; where ranks are processes, those of a "
          "machine take its devices in turn)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  word("--transport", transport, {"local", "mpi", "nccl"},
       "what moves bytes between ranks; local: ranks are threads; mpi: the processes that mpirun started; "
       "nccl: the same, between their GPUs");
  verb.add_option("--timeout", timeout,
                  "with mpi and nccl: seconds after which a rank that gives no sign of life is lost (60)")
      ->check(CLI::PositiveNumber)
      ->group(group);
  verb.add_option("--threads", threads,
                  "of all ranks of this machine together; 0: as many as this process may run on")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str()
      ->group(group);
  word("--isa", isa, texts_of(kIsaWords), "instructions of the cpu engine");
  word("--down", down, texts_of(kDownWords), "cut of the down projection among tensor ranks");
  word("--weights", weights, texts_of(kWeightWords), "weights held cut one way, or both");
  word("--split", split, {"contiguous", "zigzag"}, "of the tokens among context ranks");
  word("--gradients", gradients, texts_of(kGradientWords), "how weight gradients cross context ranks");
  word("--exchange", exchange, texts_of(kCoverWords), "how covers cross tensor ranks");
  verb.add_option(
          "--ranks-per-node", ranks_per_node,
          "neighbouring ranks on one machine: context ranks then exchange in two levels; 0: one level")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group(group);
  word("--overlap", overlap, texts_of(kOverlapWords), "whether exchanges run under computation");
}

std::shared_ptr<const World> make_world(const ComputeFlags& flags) {
  if (flags.transport == "local") {
    if (flags.timeout)
      fail_usage(fmt::format("--timeout {:g}: it is of --transport mpi and nccl", *flags.timeout));
    return std::make_shared<World>();
  }
  if (flags.transport == "nccl" && flags.engine == "cpu")
    fail_usage(
        "--transport nccl --engine cpu: NCCL moves memory of GPUs; --engine cuda, or --transport mpi for the "
        "cpu engine");
  const MpiStatus mpi = mpi_status();
  if (!mpi.built) {
    fail_environment(fmt::format(
        "--transport {}: its ranks are the processes that mpirun started, and this build has no MPI; "
        "transports here: local",
        flags.transport));
  }
  MpiOptions options;
  if (flags.timeout) options.timeout_seconds = *flags.timeout;
  return std::make_shared<World>(mpi_transport(options), mpi.library);
}

Compute::Compute(const ComputeFlags& flags, std::shared_ptr<const World> on)
    : contract(parse_contract(flags.contract)),
      engine(flags.engine),
      transport(flags.transport),
      world(std::move(on)),
      flags_(flags) {
  if (transport == "nccl") {
    if (const NcclStatus status = nccl_status(); !status.found)
      fail_environment(fmt::format("--transport nccl: {}", status.problem));
  }
  const int turn = has_processes() ? world->rank_here() : 0;
  if (engine == "cuda") {
    device = usable_device(engine, cuda_status(), flags.device, turn);
    device_engine = make_cuda_engine({.device = device->index});
  } else if (engine == "hip") {
    device = usable_device(engine, hip_status(), flags.device, turn);
    device_engine = make_hip_engine({.device = device->index});
  }
  isa = choose(flags.isa, kIsaWords);
  isa_name = isa == Isa::automatic ? best_isa_name() : flags.isa;
  threads = flags.threads > 0 ? flags.threads : available_threads();
  zigzag = flags.split == "zigzag";
  down = choose(flags.down, kDownWords);
  weights = choose(flags.weights, kWeightWords);
  gradients = choose(flags.gradients, kGradientWords);
  exchange = choose(flags.exchange, kCoverWords);
  overlap = choose(flags.overlap, kOverlapWords);
}

void Compute::join() {
  if (transport != "nccl") return;
  NcclOptions options;
  options.space = device_engine->device().space;
  options.device = device->index;
  options.bootstrap = world->transport();
  if (flags_.timeout) options.timeout_seconds = *flags_.timeout;
  nccl = nccl_transport(options);
}

std::shared_ptr<engine::Engine> Compute::make_engine(int engine_threads) const {
  return device_engine ? device_engine : make_cpu_engine({.threads = engine_threads, .isa = isa});
}

int Compute::threads_of_rank(int ranks) const {
  return std::max(1, threads / (has_processes() ? world->ranks_here(ranks) : ranks));
}

int Compute::threads_of_process() const { return std::max(1, threads / world->ranks_here(world->size())); }

std::string Compute::engine_text() const {
  return device_engine ? device_engine->name()
                       : fmt::format("{} ({}, {} threads)", engine, isa_name, threads);
}

std::string Compute::transport_text() const {
  if (!has_processes()) return transport;
  return fmt::format("{} ({}{}, {} process{})", transport,
                     transport == "nccl" ? nccl_status().version + " over " : "", world->library(),
                     world->size(), world->size() == 1 ? "" : "es");
}

TokenShards Compute::shards(std::int64_t tokens, int cp) const {
  return zigzag ? TokenShards::zigzag(tokens, cp) : TokenShards::contiguous(tokens, cp);
}

PlanOptions Compute::plan_options(const Shape& shape, std::int64_t tokens, const Layout& layout,
                                  bool backward) const {
  PlanOptions options;
  options.contract = contract;
  options.shape = shape;
  options.max_tokens = tokens;
  options.layout = layout;
  options.backward = backward;
  options.down = down;
  options.weights = weights;
  options.gradient_reduction = gradients;
  options.cover_exchange = exchange;
  options.ranks_per_node = flags_.ranks_per_node;
  options.overlap = overlap;
  return options;
}

std::vector<AgreedField> Compute::agreed() const {
  return {{"contract", name_of(contract)},
          {"--down", flags_.down},
          {"--weights", flags_.weights},
          {"--split", flags_.split},
          {"--gradients", flags_.gradients},
          {"--exchange", flags_.exchange},
          {"--ranks-per-node", fmt::format("{}", flags_.ranks_per_node)},
          {"--overlap", flags_.overlap}};
}

int run_verb(const ComputeFlags& flags, const std::function<int(const Compute&)>& body) {
  const auto world = make_world(flags);
  std::optional<Compute> compute;  // communicators go when every rank has come to its end
  return world->run([&] {
    world->together([&] { compute.emplace(flags, world); });
    agree(*world, {{"--engine", flags.engine}, {"--transport", flags.transport}});
    compute->join();
    return body(*compute);
  });
}

}  // namespace samebits::tools
