// The block on seeded inputs, forward and backward, on one rank and on two: the digests are the contract's
// own.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "samebits/contract.hpp"
#include "samebits/digest.hpp"
#include "samebits/error.hpp"
#include "samebits/plan.hpp"
#include "samebits/seeded.hpp"
#include "samebits/transport.hpp"
#include "samebits/version.hpp"

namespace {

constexpr std::int64_t kTokens = 77;
constexpr samebits::Shape kShape{64, 208};

class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols)
      : rows_(rows), cols_(cols), elements_(static_cast<std::size_t>(rows * cols)) {}
  Matrix(std::int64_t rows, std::int64_t cols, samebits::SeededTensor tensor) : Matrix(rows, cols) {
    samebits::fill_seeded(view(), {.tensor = tensor, .row_length = cols});
  }
  samebits::View view() { return samebits::host_view(elements_.data(), rows_, cols_); }

 private:
  std::int64_t rows_, cols_;
  std::vector<std::uint16_t> elements_;
};

bool same(const char* name, Matrix& tensor, const std::string& golden) {
  const std::string found = samebits::digest(tensor.view());
  std::printf("%s %s%s\n", name, found.c_str(), found == golden ? "" : (", expected " + golden).c_str());
  return found == golden;
}

struct Inputs {
  Matrix x{kTokens, kShape.hidden, samebits::SeededTensor::x};
  Matrix dy{kTokens, kShape.hidden, samebits::SeededTensor::dy};
  Matrix gate{kShape.intermediate, kShape.hidden, samebits::SeededTensor::gate};
  Matrix up{kShape.intermediate, kShape.hidden, samebits::SeededTensor::up};
  Matrix down{kShape.hidden, kShape.intermediate, samebits::SeededTensor::down};
};

bool one_rank(Inputs& in) {
  Matrix y(kTokens, kShape.hidden), dx(kTokens, kShape.hidden), d_gate(kShape.intermediate, kShape.hidden),
      d_up(kShape.intermediate, kShape.hidden), d_down(kShape.hidden, kShape.intermediate);
  samebits::Plan plan(
      {.contract = samebits::parse_contract("bf16-tree-v1"), .shape = kShape, .max_tokens = kTokens});
  const samebits::Weights weights = plan.slice(in.gate.view(), in.up.view(), in.down.view());
  plan.forward({.x = in.x.view(), .y = y.view(), .weights = weights});
  plan.backward({.x = in.x.view(),
                 .dy = in.dy.view(),
                 .weights = weights,
                 .dx = dx.view(),
                 .d_gate = d_gate.view(),
                 .d_up = d_up.view(),
                 .d_down = d_down.view()});
  bool held = same("y", y, "53d45770cb1262cb74a9deb3457a78cb");
  held = same("dx", dx, "a868e7cb071354bb51d58039cfbd2e61") && held;
  held = same("d_gate", d_gate, "f816a6619e2fc5b002a93b9182baef60") && held;
  held = same("d_up", d_up, "645f228b05d393729e0551b2bfcfd913") && held;
  return same("d_down", d_down, "5a089ae13c6d80551dbe77f0c94b61bb") && held;
}

bool two_ranks(Inputs& in) {
  std::vector<Matrix> y(2, Matrix(kTokens, kShape.hidden));
  samebits::run_local(2, [&](int rank, std::shared_ptr<samebits::Transport> transport) {
    samebits::Plan plan({.shape = kShape,
                         .max_tokens = kTokens,
                         .layout = samebits::parse_layout("tp2"),
                         .engine = samebits::make_cpu_engine({.threads = 1}),
                         .transport = transport,
                         .backward = false});
    const samebits::Weights weights = plan.slice(in.gate.view(), in.up.view(), in.down.view());
    plan.forward({.x = in.x.view(), .y = y[static_cast<std::size_t>(rank)].view(), .weights = weights});
  });
  const std::string golden = "53d45770cb1262cb74a9deb3457a78cb";
  return same("y of tp2, rank 0", y[0], golden) && same("y of tp2, rank 1", y[1], golden);
}

// An exception keeps its type on the way out of the library.
bool refuses() {
  try {
    samebits::parse_contract("no-such-contract");
  } catch (const samebits::Error& error) {
    return error.code() == samebits::ErrorCode::invalid_argument;
  }
  return false;
}

}  // namespace

int main() {
  try {
    Inputs in;
    const bool one = one_rank(in), two = two_ranks(in), refused = refuses();
    std::printf("samebits %s: %s\n", samebits::kVersion, one && two && refused ? "ok" : "FAILED");
    return one && two && refused ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
