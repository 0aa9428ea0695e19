// A served bench answers every line with one line, and goes on after a request it cannot answer.
#include "bench/serve.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "small_block.hpp"

namespace samebits::tools {
namespace {

class PlayedBench final : public DeviceBench {
 public:
  BenchSamples time(const Contract& contract, std::int64_t tokens, Direction direction,
                    int repeats) override {
    asked_ = words(contract, tokens, direction, repeats);
    return {{30, 10, 20}, {}};
  }
  const Ceiling& ceiling() const override { return ceiling_; }
  const std::string& baseline() const override { return baseline_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  const std::string& asked() const { return asked_; }

 private:
  static std::string words(const Contract& contract, std::int64_t tokens, Direction direction, int repeats) {
    return name_of(contract) + " " + std::to_string(tokens) +
           (direction == Direction::both ? " both " : " forward ") + std::to_string(repeats);
  }
  Ceiling ceiling_{"played", {{"bf16", 7e14}}, 4e12, 5e12};
  std::string baseline_, asked_;
  std::vector<std::string> notes_{"a note"};
};

class Input {
 public:
  explicit Input(const std::string& text) : stream_(text), before_(std::cin.rdbuf(stream_.rdbuf())) {}
  ~Input() { std::cin.rdbuf(before_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

 private:
  std::istringstream stream_;
  std::streambuf* before_;
};

TEST(Serve, AnswersLineByLine) {
  const Compute compute = compute_with();
  const NamedShape shape{"64x208", {64, 208}};
  PlayedBench bench;
  const Input input(
      "sm90-v1 8 both\nsm90-v1 9 forward\nno-contract 1 forward\nsm90-v1 0 forward\nsm90-v1 8\nsm90-v1 8 up\n"
      "bf16-tree-v1 1 forward\n");
  testing::internal::CaptureStdout();
  serve_bench({bench, compute, shape, 8, true, 11});
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<Json> said;
  for (std::string line; std::getline(lines, line);) said.push_back(Json::parse(line));
  ASSERT_EQ(said.size(), 8u);
  EXPECT_EQ(said[0]["ceiling"]["flops_per_second"]["bf16"], 7e14);
  EXPECT_EQ(said[0]["ceiling"]["copy_bytes_per_second"], 5e12);
  EXPECT_EQ(said[1]["contract"], "sm90-v1");
  EXPECT_EQ(said[1]["direction"], "both");
  EXPECT_EQ(said[1]["tokens"], 8);
  EXPECT_EQ(said[1]["ours_us"]["median"], 20);
  EXPECT_TRUE(said[1]["baseline_us"].is_null());
  EXPECT_DOUBLE_EQ(said[1]["weight_bytes_per_second"].get<double>(), 9 * 2 * 64 * 208 / 20e-6);
  for (std::size_t i = 2; i < 7; ++i) EXPECT_TRUE(said[i].contains("error")) << i;
  EXPECT_EQ(said[7]["contract"], "bf16-tree-v1");
  EXPECT_EQ(bench.asked(), "bf16-tree-v1 1 forward 11");
}

}  // namespace
}  // namespace samebits::tools
