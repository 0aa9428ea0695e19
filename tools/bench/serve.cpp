#include "bench/serve.hpp"

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "bench/report.hpp"
#include "shared/failure.hpp"

namespace samebits::tools {
namespace {

void say(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json answer(const ServedBench& served, const std::string& request) {
  std::istringstream words(request);
  std::string contract_text, tokens_text, direction_text, more;
  words >> contract_text >> tokens_text >> direction_text;
  const Direction direction = direction_text == "both" ? Direction::both : Direction::forward;
  if (direction_text != name_of(direction) || words >> more)
    fail_usage("a request is CONTRACT TOKENS forward|both");
  const Contract contract = parse_contract(contract_text);
  const std::int64_t tokens = parse_count("tokens", tokens_text);
  if (tokens < 1 || tokens > served.most_tokens) fail_usage("tokens: from 1 to the largest of --tokens");
  if (direction == Direction::both && !served.both) fail_usage("both: the bench was started for the forward");
  const BenchSamples samples = served.bench.time(contract, tokens, direction, served.repeats);
  return row_json(bench_row(served.shape.shape, {{}, direction, served.repeats}, tokens, samples),
                  served.bench.baseline(), contract);
}

}  // namespace

void serve_bench(const ServedBench& served) {
  Json head = report_head("bench");
  head["environment"] = environment_json(served.compute);
  head["shape"] = {{"hidden", served.shape.shape.hidden},
                   {"intermediate", served.shape.shape.intermediate},
                   {"source", served.shape.name}};
  head["ceiling"] = ceiling_json(served.bench.ceiling());
  head["notes"] = served.bench.notes();
  say(head);
  for (std::string request; std::getline(std::cin, request);) {
    try {
      say(answer(served, request));
    } catch (const Error& error) {
      say({{"error", error.what()}});
    }
  }
}

}  // namespace samebits::tools
