#include "block/remote_results.hpp"

#include <array>
#include <cstdint>
#include <utility>

#include "block/process_group.hpp"
#include "shared/host_tensor.hpp"

namespace samebits::tools {
namespace {

// What rank 0 must know of a tensor before it comes.
struct Head {
  std::int32_t which;
  std::int32_t dtype;
  std::int64_t begin, end;  // RankTensor::intermediate
  std::int64_t rows, cols;
};

std::size_t bytes_of(const ConstView& view) {
  return static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
}

// Bytes from one rank to rank 0.
class Line {
 public:
  Line(Transport& group, int rank) : pair_(group.subgroup(std::array{0, rank})) {}

  void send(const void* data, std::size_t bytes) const {
    pair_->all_to_all(data, std::array{bytes, std::size_t{0}}, nullptr, kNothing, MemorySpace::host, {});
  }
  void receive(void* data, std::size_t bytes) const {
    pair_->all_to_all(nullptr, kNothing, data, std::array{std::size_t{0}, bytes}, MemorySpace::host, {});
  }

 private:
  static constexpr std::array<std::size_t, 2> kNothing{};
  std::shared_ptr<Transport> pair_;
};

class SendingSink final : public ResultSink {
 public:
  explicit SendingSink(std::shared_ptr<Transport> group) : group_(std::move(group)) {}

  View place(int, BlockTensor, const Interval&) override { return {}; }

  // `made.tensor` is packed: place() named no other memory.
  void take(const RankTensor& made) override {
    const Line line(*group_, group_->rank());
    const ConstView& tensor = made.tensor;
    const Head head{made.which,
                    static_cast<std::int32_t>(tensor.dtype),
                    made.intermediate.begin,
                    made.intermediate.end,
                    tensor.rows,
                    tensor.cols};
    line.send(&head, sizeof head);
    line.send(tensor.data, bytes_of(tensor));
    exchange_nothing(*group_, MemorySpace::host);
  }

 private:
  std::shared_ptr<Transport> group_;
};

class ReceivingSink final : public ResultSink {
 public:
  ReceivingSink(std::shared_ptr<Transport> group, ResultSink& results)
      : group_(std::move(group)), results_(results) {}

  View place(int rank, BlockTensor which, const Interval& intermediate) override {
    return results_.place(rank, which, intermediate);
  }

  void take(const RankTensor& made) override {
    results_.take(made);
    for (int rank = 1; rank < group_->size(); ++rank) {
      const Line line(*group_, rank);
      Head head{};
      line.receive(&head, sizeof head);
      HostTensor tensor(head.rows, head.cols, static_cast<DType>(head.dtype));
      line.receive(tensor.view().data, tensor.bytes());
      results_.take(
          {rank, static_cast<BlockTensor>(head.which), {head.begin, head.end}, std::as_const(tensor).view()});
    }
    exchange_nothing(*group_, MemorySpace::host);
  }

 private:
  std::shared_ptr<Transport> group_;
  ResultSink& results_;
};

}  // namespace

std::unique_ptr<ResultSink> receiving_sink(std::shared_ptr<Transport> group, ResultSink& results) {
  return std::make_unique<ReceivingSink>(std::move(group), results);
}

std::unique_ptr<ResultSink> sending_sink(std::shared_ptr<Transport> group) {
  return std::make_unique<SendingSink>(std::move(group));
}

}  // namespace samebits::tools
