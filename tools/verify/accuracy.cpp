#include "verify/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <vector>

#include "numerics/bf16.hpp"
#include "shared/parallel.hpp"

namespace samebits::tools {
namespace {

using numerics::Bf16;

constexpr std::int64_t kRowsAtOnce = 128;  // of I
constexpr std::int64_t kLanes = 16;        // accumulators of the inner loop, kept in vector registers

// out[0, n) = (or +=) sum over k of a[k] * b[k * row_length + ...]: one row of a product, its columns in
// lanes. The loop over lanes is what the compiler vectorises.
template <class A, class B>
void row_product(const A* a, const B* b, std::int64_t row_length, std::int64_t k_count, std::int64_t n,
                 double* out, bool add) {
  std::int64_t at = 0;
  for (; at + kLanes <= n; at += kLanes) {
    double sum[kLanes] = {};
    for (std::int64_t k = 0; k < k_count; ++k) {
      const double factor = a[k];
      const B* const row = b + k * row_length + at;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += factor * static_cast<double>(row[lane]);
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      out[at + lane] = sum[lane] + (add ? out[at + lane] : 0.0);
  }
  for (; at < n; ++at) {
    double sum = 0;
    for (std::int64_t k = 0; k < k_count; ++k)
      sum += static_cast<double>(a[k]) * static_cast<double>(b[k * row_length + at]);
    out[at] = sum + (add ? out[at] : 0.0);
  }
}

float widen_at(const ConstView& view, std::int64_t row, std::int64_t col) {
  const std::int64_t at = row * view.row_stride + col * view.col_stride;
  return view.dtype == DType::f32 ? static_cast<const float*>(view.data)[at]
                                  : numerics::widen(static_cast<const Bf16*>(view.data)[at]);
}

// f32 copies, exact. [rows, cols] as it lies, or [cols, rows].
std::vector<float> widened(const ConstView& view, bool transposed, int threads) {
  std::vector<float> out(static_cast<std::size_t>(view.elements()));
  const std::int64_t rows = transposed ? view.cols : view.rows, cols = transposed ? view.rows : view.cols;
  parallel_parts(threads, rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = 0; c < cols; ++c)
        out[r * cols + c] = transposed ? widen_at(view, c, r) : widen_at(view, r, c);
    }
  });
  return out;
}

class ErrorSums {
 public:
  void add(double value, double reference) {
    const double error = std::abs(value - reference);
    squares_ += error * error;
    reference_squares_ += reference * reference;
    sum_ += error;
    most_ = std::max(most_, error);
    ++count_;
  }
  void add(const ErrorSums& other) {
    squares_ += other.squares_;
    reference_squares_ += other.reference_squares_;
    sum_ += other.sum_;
    most_ = std::max(most_, other.most_);
    count_ += other.count_;
  }
  ErrorNorms norms() const {
    if (count_ == 0) return {};
    return {reference_squares_ > 0 ? std::sqrt(squares_ / reference_squares_) : 0.0, most_,
            sum_ / static_cast<double>(count_)};
  }

 private:
  double squares_ = 0, reference_squares_ = 0, sum_ = 0, most_ = 0;
  std::int64_t count_ = 0;
};

class Float64Block {
 public:
  Float64Block(const BlockCase& block, const BlockTensors& tensors, int threads)
      : block_(block),
        tensors_(tensors),
        threads_(threads),
        H_(block.shape.hidden),
        M_(block.tokens),
        x_(widened(block.x, false, threads)),
        dy_(widened(block.dy, false, threads)),
        x_transposed_(widened(block.x, true, threads)),
        dy_transposed_(widened(block.dy, true, threads)),
        y_(static_cast<std::size_t>(H_ * M_)),
        dx_(static_cast<std::size_t>(H_ * M_)) {
    for (auto* tensor : {&gate_, &up_, &down_}) tensor->resize(static_cast<std::size_t>(kRowsAtOnce * H_));
    for (auto* tensor : {&act_, &d_gate_, &d_up_}) tensor->resize(static_cast<std::size_t>(kRowsAtOnce * M_));
  }

  // Rows [begin, end) of I: what they add to y and dx, and their rows of the weight gradients.
  void add_rows(std::int64_t begin, std::int64_t end) {
    widen_weights(begin, end);
    const std::int64_t rows = end - begin;
    parallel_parts(threads_, rows, [&](std::int64_t from, std::int64_t to, int) {
      for (std::int64_t i = from; i < to; ++i) activation_row(i);
    });
    parallel_parts(threads_, H_,
                   [&](std::int64_t from, std::int64_t to, int) { add_to_tokens(rows, from, to); });
    parallel_parts(threads_, rows,
                   [&](std::int64_t from, std::int64_t to, int) { gradient_rows(begin, from, to); });
  }

  Accuracy finish() {
    const auto compare_tokens = [&](const std::vector<double>& transposed, const ConstView& tensor,
                                    ErrorSums& sums) {
      for (std::int64_t m = 0; m < M_; ++m) {
        for (std::int64_t h = 0; h < H_; ++h) sums.add(widen_at(tensor, m, h), transposed[h * M_ + m]);
      }
    };
    compare_tokens(y_, tensors_.view(kOutput), sums_[kY]);
    compare_tokens(dx_, tensors_.view(kHiddenGradient), sums_[kDHidden]);
    Accuracy accuracy;
    for (int i = 0; i < kAccuracyTensors; ++i) accuracy[i] = sums_[i].norms();
    return accuracy;
  }

 private:
  // [rows of I, H] each; down is transposed.
  void widen_weights(std::int64_t begin, std::int64_t end) {
    parallel_parts(threads_, end - begin, [&](std::int64_t from, std::int64_t to, int) {
      for (std::int64_t i = from; i < to; ++i) {
        for (std::int64_t h = 0; h < H_; ++h) {
          gate_[i * H_ + h] = widen_at(block_.gate, begin + i, h);
          up_[i * H_ + h] = widen_at(block_.up, begin + i, h);
        }
      }
      for (std::int64_t h = 0; h < H_; ++h) {  // along the rows of down, a stretch of I at a time
        for (std::int64_t i = from; i < to; ++i) down_[i * H_ + h] = widen_at(block_.down, h, begin + i);
      }
    });
  }

  // A, dG and dU of one row of I, [M] each.
  void activation_row(std::int64_t i) {
    std::vector<double> gate(M_), up(M_), d_act(M_);
    row_product(&gate_[i * H_], x_transposed_.data(), M_, H_, M_, gate.data(), false);
    row_product(&up_[i * H_], x_transposed_.data(), M_, H_, M_, up.data(), false);
    row_product(&down_[i * H_], dy_transposed_.data(), M_, H_, M_, d_act.data(), false);
    for (std::int64_t m = 0; m < M_; ++m) {
      const double s = 1.0 / (1.0 + std::exp(-gate[m]));
      act_[i * M_ + m] = gate[m] * s * up[m];
      d_up_[i * M_ + m] = d_act[m] * gate[m] * s;
      d_gate_[i * M_ + m] = d_act[m] * up[m] * s * (1.0 + gate[m] * (1.0 - s));
    }
  }

  // Columns [from, to) of y and dx, kept transposed: [H, M].
  void add_to_tokens(std::int64_t rows, std::int64_t from, std::int64_t to) {
    std::vector<float> column(
        static_cast<std::size_t>(rows));  // of a weight: its element h in every row of I
    const auto add = [&](const std::vector<float>& weight, std::int64_t h, const std::vector<double>& of_rows,
                         double* out) {
      for (std::int64_t i = 0; i < rows; ++i) column[i] = weight[i * H_ + h];
      row_product(column.data(), of_rows.data(), M_, rows, M_, out, true);
    };
    for (std::int64_t h = from; h < to; ++h) {
      add(down_, h, act_, &y_[h * M_]);
      add(gate_, h, d_gate_, &dx_[h * M_]);
      add(up_, h, d_up_, &dx_[h * M_]);
    }
  }

  void gradient_rows(std::int64_t begin, std::int64_t from, std::int64_t to) {
    std::vector<double> row(static_cast<std::size_t>(H_));
    ErrorSums gate, up, down;
    for (std::int64_t i = from; i < to; ++i) {
      row_product(&d_gate_[i * M_], x_.data(), H_, M_, H_, row.data(), false);
      for (std::int64_t h = 0; h < H_; ++h)
        gate.add(widen_at(tensors_.view(kGateGradient), begin + i, h), row[h]);
      row_product(&d_up_[i * M_], x_.data(), H_, M_, H_, row.data(), false);
      for (std::int64_t h = 0; h < H_; ++h)
        up.add(widen_at(tensors_.view(kUpGradient), begin + i, h), row[h]);
      row_product(&act_[i * M_], dy_.data(), H_, M_, H_, row.data(), false);
      for (std::int64_t h = 0; h < H_; ++h)
        down.add(widen_at(tensors_.view(kDownGradient), h, begin + i), row[h]);
    }
    const std::lock_guard lock(mutex_);
    sums_[kDGate].add(gate);
    sums_[kDUp].add(up);
    sums_[kDDown].add(down);
  }

  const BlockCase& block_;
  const BlockTensors& tensors_;
  int threads_;
  std::int64_t H_, M_;
  std::vector<float> x_, dy_, x_transposed_, dy_transposed_;  // [M, H] and [H, M]
  std::vector<double> y_, dx_;                                // [H, M]
  std::vector<float> gate_, up_, down_;                       // [rows at once, H]
  std::vector<double> act_, d_gate_, d_up_;                   // [rows at once, M]
  std::mutex mutex_;
  std::array<ErrorSums, kAccuracyTensors> sums_;
};

}  // namespace

Accuracy measure_accuracy(const BlockCase& block, const BlockTensors& tensors, int threads,
                          const std::function<void(double)>& progress) {
  if (block.tokens == 0) return {};  // every gradient is zero exactly; nothing is approximated
  Float64Block float64(block, tensors, threads);
  const std::int64_t rows = block.shape.intermediate;
  for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    progress(static_cast<double>(begin) / static_cast<double>(rows));
    float64.add_rows(begin, std::min(rows, begin + kRowsAtOnce));
  }
  return float64.finish();
}

}  // namespace samebits::tools
