// A plan as Python holds it: shared with its accumulators, one call at a time, the GIL free while it
// computes.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "operands.hpp"
#include "samebits/error.hpp"
#include "samebits/plan.hpp"
#include "transport.hpp"

namespace samebits::python {

class SharedPlan {
 public:
  explicit SharedPlan(const PlanOptions& options) : options_(options) {
    const nb::gil_scoped_release release;
    plan_ = std::make_unique<Plan>(options);
  }
  // Waits for exchanges, which may call Python.
  ~SharedPlan() {
    const nb::gil_scoped_release release;
    plan_.reset();
    options_.engine.reset();
    options_.transport.reset();
  }
  SharedPlan(const SharedPlan&) = delete;
  SharedPlan& operator=(const SharedPlan&) = delete;

  const PlanOptions& options() const { return options_; }
  Plan& plan() { return *plan_; }

  // Reads a call's arguments. The library tells other ranks of its own failures; these come before it.
  template <class Body>
  void prepare(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      tell_others(options_.transport.get(), error.what());
      throw;
    }
  }

  // Collective calls, from any thread.
  template <class Body>
  void compute(const Operands& operands, const Body& body) {
    try {
      const nb::gil_scoped_release release;
      const std::lock_guard lock(busy_);
      body(*plan_);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::invalid_argument && operands.wrong_dtype())
        throw nb::type_error(error.what());
      throw;
    }
  }

 private:
  PlanOptions options_;
  std::unique_ptr<Plan> plan_;
  std::mutex busy_;
};

struct HeldPlan {
  std::shared_ptr<SharedPlan> shared;
};

// [(begin, end), ...] of each context rank.
using Shards = std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>;
std::vector<std::vector<Interval>> intervals_of(const Shards& shards);

}  // namespace samebits::python
