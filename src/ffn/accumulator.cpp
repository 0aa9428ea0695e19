#include "samebits/accumulator.hpp"

#include <fmt/format.h>

#include <array>

#include "ffn/accumulator_impl.hpp"
#include "ffn/rank/handshake.hpp"
#include "ffn/rank/or_abort.hpp"
#include "samebits/words.hpp"

namespace samebits {

GradientAccumulator::GradientAccumulator(Plan& plan, const AccumulatorOptions& options) {
  Plan::Impl& impl = *plan.impl_;
  ffn::or_abort(
      impl.ranks.all.get(),
      [&] {
        if (!impl.options.backward || impl.options.control) {
          throw ffn::SharedError(ErrorCode::invalid_argument,
                                 "an accumulator is of a plan made with backward, and of no control");
        }
        const std::string tokens = options.tokens < 0
                                       ? fmt::format("at most {}", options.max_tokens)
                                       : fmt::format("{} of at most {}", options.tokens, options.max_tokens);
        const std::array<ffn::AgreedField, 1> field = {
            {{"accumulator", fmt::format("{} tokens in {} stretches, gradients {}", tokens, options.stretches,
                                         word_of(kGradientWords, options.reduction))}}};
        ffn::agree(*impl.ranks.all, *impl.engine, field);
        ffn::refuse_together([&] { impl_ = std::make_unique<Impl>(impl, options); });
      },
      [] {});
}
GradientAccumulator::~GradientAccumulator() = default;
GradientAccumulator::GradientAccumulator(GradientAccumulator&&) noexcept = default;
GradientAccumulator& GradientAccumulator::operator=(GradientAccumulator&&) noexcept = default;

void GradientAccumulator::finish(const Gradients& out, Queue queue) {
  Plan::Impl& plan = *impl_->plan;
  plan.run(queue, [&] {
    plan.check_gradients(out);
    ffn::Accumulation& sum = impl_->sum;
    sum.begin_finish();
    sum.write(ffn::Accumulation::kGate, out.d_gate, *plan.block, queue);
    sum.write(ffn::Accumulation::kUp, out.d_up, *plan.block, queue);
    sum.write(ffn::Accumulation::kDown, out.d_down, *plan.block, queue);
    sum.clear();
  });
}

void GradientAccumulator::clear() { impl_->sum.clear(); }
std::int64_t GradientAccumulator::tokens() const { return impl_->sum.tokens(); }
std::size_t GradientAccumulator::bytes() const { return impl_->sum.bytes(); }

}  // namespace samebits
