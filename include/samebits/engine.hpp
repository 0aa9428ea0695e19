// An engine makes the nodes of the tree on one kind of processor. Plans hold one; which one changes no bit.
#pragma once

#include <memory>
#include <string>

#include "samebits/export.hpp"

namespace samebits {

namespace engine {
class Engine;
}

enum class Isa { automatic, plain, avx2, avx512 };

struct CpuEngineOptions {
  int threads = 0;  // 0: as many as the process may run on
  Isa isa = Isa::automatic;
};

// Throws Error(refused) when this processor lacks the instruction set asked for.
SAMEBITS_API std::shared_ptr<engine::Engine> make_cpu_engine(const CpuEngineOptions& options = {});

// "avx512", "avx2" or "plain": what `automatic` means on this processor.
SAMEBITS_API std::string best_isa_name();

}  // namespace samebits
