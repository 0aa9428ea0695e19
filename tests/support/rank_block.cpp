#include "support/rank_block.hpp"

#include <numeric>
#include <random>
#include <utility>

#include "samebits/error.hpp"
#include "samebits/seeded.hpp"
#include "support/rank_rows.hpp"

namespace samebits::test {
namespace {

constexpr Shape kShape{24, 96};
constexpr std::int64_t kTokens = 37;

std::vector<std::uint16_t> seeded(SeededTensor tensor, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint16_t> out(static_cast<std::size_t>(rows * cols));
  SeededSlice slice;
  slice.seed = 11;
  slice.tensor = tensor;
  slice.row_length = cols;
  fill_seeded(host_view(out.data(), rows, cols), slice);
  return out;
}

PlanOptions options_of(const Layout& layout, std::shared_ptr<Transport> transport) {
  PlanOptions options;
  options.contract = parse_contract("f32-tree-v1");
  options.shape = kShape;
  options.max_tokens = options.max_rank_tokens = kTokens;
  options.layout = layout;
  options.engine = make_cpu_engine({1, Isa::automatic});
  options.transport = std::move(transport);
  return options;
}

unsigned char byte_of(std::size_t round, std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<unsigned char>(round * 31 + from * 50 + to * 7 + i * 13);
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::internal, what);
}

void check_gather(Transport& transport, std::size_t round, const std::vector<std::size_t>& bytes,
                  bool in_place) {
  const auto me = static_cast<std::size_t>(transport.rank());
  const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}),
                    before = std::accumulate(bytes.begin(), bytes.begin() + transport.rank(), std::size_t{0});
  std::vector<unsigned char> in(all + 1, 0xEE), out(bytes[me] + 1);
  unsigned char* const mine = in_place ? in.data() + before : out.data();
  for (std::size_t i = 0; i < bytes[me]; ++i) mine[i] = byte_of(round, me, 0, i);
  transport.all_gather(mine, in.data(), bytes, MemorySpace::host, {});
  std::size_t at = 0;
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    for (std::size_t i = 0; i < bytes[r]; ++i, ++at)
      require(in[at] == byte_of(round, r, 0, i), "other bytes came");
  }
  require(in[at] == 0xEE, "more bytes came");
}

}  // namespace

RankBlock::RankBlock(const Layout& layout, std::shared_ptr<Transport> transport)
    : plan_(options_of(layout, std::move(transport))),
      shards_(TokenShards::zigzag(kTokens, layout.cp)),
      gate_(seeded(SeededTensor::gate, kShape.intermediate, kShape.hidden)),
      up_(seeded(SeededTensor::up, kShape.intermediate, kShape.hidden)),
      down_(seeded(SeededTensor::down, kShape.hidden, kShape.intermediate)) {
  const std::int64_t H = kShape.hidden, I = kShape.intermediate;
  const std::vector<std::int64_t> rows = rows_of(layout, plan_.shard(), shards_);
  const auto count = static_cast<std::int64_t>(rows.size()), held = plan_.shard().intermediate.length();
  const auto mine = [&](const std::vector<std::uint16_t>& whole) {
    std::vector<std::uint16_t> part;
    for (const std::int64_t row : rows)
      part.insert(part.end(), whole.begin() + row * H, whole.begin() + (row + 1) * H);
    return part;
  };
  const auto operand = [](const std::vector<std::uint16_t>& data, std::int64_t r, std::int64_t c) {
    return host_view(static_cast<const void*>(data.data()), r, c);
  };
  x_ = mine(seeded(SeededTensor::x, kTokens, H));
  dy_ = mine(seeded(SeededTensor::dy, kTokens, H));
  const auto activations = static_cast<std::size_t>(count * H), weights = static_cast<std::size_t>(held * H);
  results_.resize(2 * activations + 3 * weights);
  std::uint16_t* const at = results_.data();

  forward_.x = operand(x_, count, H);
  forward_.shards = &shards_;
  forward_.y = host_view(at, count, H);
  forward_.weights = plan_.slice(operand(gate_, I, H), operand(up_, I, H), operand(down_, H, I));
  backward_.x = forward_.x;
  backward_.dy = operand(dy_, count, H);
  backward_.weights = forward_.weights;
  backward_.shards = &shards_;
  backward_.dx = host_view(at + activations, count, H);
  backward_.d_gate = host_view(at + 2 * activations, held, H);
  backward_.d_up = host_view(at + 2 * activations + weights, held, H);
  backward_.d_down = host_view(at + 2 * activations + 2 * weights, H, held);
}

std::vector<std::uint16_t> rank_results(const Layout& layout, std::shared_ptr<Transport> transport) {
  RankBlock block(layout, std::move(transport));
  block.forward();
  block.backward();
  return block.results();
}

std::vector<std::vector<std::uint16_t>> local_results(const Layout& layout) {
  std::vector<std::vector<std::uint16_t>> results(static_cast<std::size_t>(layout.ranks()));
  run_local(layout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
    results[static_cast<std::size_t>(rank)] = rank_results(layout, std::move(transport));
  });
  return results;
}

void check_collectives(Transport& transport, std::size_t round, std::size_t most) {
  const auto ranks = static_cast<std::size_t>(transport.size()),
             me = static_cast<std::size_t>(transport.rank());
  const auto size = [&](std::size_t from, std::size_t to) {
    return (round * 7919 + from * 104729 + to * 1299709) % (most + 1);
  };
  std::vector<std::size_t> sends(ranks), receives(ranks);
  for (std::size_t r = 0; r < ranks; ++r) sends[r] = size(me, r), receives[r] = size(r, me);
  std::vector<unsigned char> out, in(std::accumulate(receives.begin(), receives.end(), std::size_t{1}), 0xEE);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < sends[r]; ++i) out.push_back(byte_of(round, me, r, i));
  }
  out.push_back(0);
  transport.all_to_all(out.data(), sends, in.data(), receives, MemorySpace::host, {});
  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < receives[r]; ++i, ++at)
      require(in[at] == byte_of(round, r, me, i), "other bytes came");
  }
  require(in[at] == 0xEE, "more bytes came");

  std::vector<std::size_t> uneven(ranks), one(ranks);
  for (std::size_t r = 0; r < ranks; ++r) uneven[r] = (r + round) % 3 == 0 ? 0 : size(r, r);
  one[round % ranks] = most;
  for (const bool in_place : {false, true}) {
    check_gather(transport, round, uneven, in_place);
    check_gather(transport, round, std::vector<std::size_t>(ranks, most / 2 + 1), in_place);
    check_gather(transport, round, one, in_place);
    check_gather(transport, round, std::vector<std::size_t>(ranks, 0), in_place);
  }
}

}  // namespace samebits::test
