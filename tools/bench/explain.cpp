#include "bench/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/report.hpp"
#include "samebits/error.hpp"
#include "shared/failure.hpp"
#include "shared/table.hpp"

namespace samebits::tools {
namespace {

std::size_t moved(const std::vector<Collective>& collectives) {
  std::size_t bytes = 0;
  for (const Collective& c : collectives) bytes += std::max(c.sent, c.received);
  return bytes;
}

std::vector<Collective> of_direction(CallTraffic traffic, Direction direction) {
  std::vector<Collective> all = std::move(traffic.forward);
  if (direction == Direction::both) all.insert(all.end(), traffic.backward.begin(), traffic.backward.end());
  return all;
}

}  // namespace

double Link::time(const Collective& collective) const {
  return static_cast<double>(collective.times) * seconds +
         static_cast<double>(std::max(collective.sent, collective.received)) / bytes_per_second;
}

std::vector<Link> parse_links(const std::string& text) {
  std::vector<Link> links;
  for (const std::string& word : split_list(text)) {
    const std::size_t equals = word.find('='), colon = word.find(':');
    Link link;
    char* rest = nullptr;
    if (equals != std::string::npos && colon != std::string::npos && equals > 0 && colon > equals) {
      link.name = word.substr(0, equals);
      link.bytes_per_second = std::strtod(word.c_str() + equals + 1, &rest) * 1e9;
      const bool reads = rest == word.c_str() + colon;
      link.seconds = std::strtod(word.c_str() + colon + 1, &rest) * 1e-6;
      if (reads && *rest == 0 && link.bytes_per_second > 0 && link.seconds >= 0) {
        links.push_back(link);
        continue;
      }
    }
    fail_usage(fmt::format(
        "--links {}: NAME=GIGABYTES_A_SECOND:MICROSECONDS_A_COLLECTIVE, for instance nvlink=240:11", word));
  }
  return links;
}

Explained explain(const Compute& compute, const Shape& shape, const Layout& layout, std::int64_t tokens,
                  Direction direction) {
  Explained row{layout, tokens, direction, {}, 0, {}, 0, 0};
  PlanOptions options = compute.plan_options(shape, tokens, layout, direction == Direction::both);
  options.engine = compute.device_engine;  // none: the CPU's, which is not needed to count
  const TokenShards shards = compute.shards(tokens, layout.cp);
  try {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      std::vector<Collective> mine = of_direction(traffic_of(options, shards, rank), direction);
      if (rank > 0 && moved(mine) <= moved(row.collectives)) continue;
      row.rank = rank;
      row.collectives = std::move(mine);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::refused) throw;
    row.refused = error.what();
    return row;
  }
  // Three products forward and six backward, each of 2 tokens H I operations shared by the tensor ranks;
  // forward and dX read the weights, backward writes as many gradients.
  const double weights =
      3.0 * static_cast<double>(shape.hidden) * static_cast<double>(shape.intermediate) / layout.tp;
  const double times = direction == Direction::both ? 3 : 1;
  row.flops = 2 * times * weights * static_cast<double>(shards.count(row.rank / layout.tp));
  row.weight_bytes = 2 * times * weights;
  return row;
}

Moved moved_in(const Explained& row) {
  Moved all;
  for (const Collective& c : row.collectives) {
    all.sent += c.sent;
    all.received += c.received;
    all.collectives += static_cast<std::size_t>(c.times);
  }
  return all;
}

void print_explained(const std::vector<Explained>& rows, const std::vector<Link>& links,
                     const NamedShape& shape, const Compute& compute) {
  std::string text =
      fmt::format("{}, contract {}, engine {}\n", shape.name, canonical(compute.contract), compute.engine);
  for (const Explained& row : rows) {
    text += fmt::format("\n{}, {} tokens, {}", name_of(row.layout), row.tokens, name_of(row.direction));
    if (!row.refused.empty()) {
      text += fmt::format(": refused: {}\n", row.refused);
      continue;
    }
    text +=
        fmt::format(": rank {} computes {:.3g} TFLOP on {} of weights{}\n", row.rank, row.flops / 1e12,
                    size_text(row.weight_bytes), row.direction == Direction::both ? " and gradients" : "");
    if (row.collectives.empty()) {
      text += "moves nothing\n";
      continue;
    }
    std::vector<std::string> header{"collective", "kind", "ranks", "times", "sends", "receives"};
    for (const Link& link : links) header.push_back(link.name + " us");
    Table table(header, 2);
    const Moved sum = moved_in(row);
    std::vector<double> seconds(links.size());
    for (const Collective& c : row.collectives) {
      std::vector<std::string> cells{c.what,
                                     name_of(c.kind),
                                     fmt::format("{} {}", c.ranks, c.over_context ? "cp" : "tp"),
                                     fmt::format("{}", c.times),
                                     size_text(static_cast<double>(c.sent)),
                                     size_text(static_cast<double>(c.received))};
      for (std::size_t i = 0; i < links.size(); ++i) {
        cells.push_back(fmt::format("{:.1f}", links[i].time(c) * 1e6));
        seconds[i] += links[i].time(c);
      }
      table.add(cells);
    }
    std::vector<std::string> cells{"all",
                                   "",
                                   "",
                                   fmt::format("{}", sum.collectives),
                                   size_text(static_cast<double>(sum.sent)),
                                   size_text(static_cast<double>(sum.received))};
    for (const double s : seconds) cells.push_back(fmt::format("{:.1f}", s * 1e6));
    table.add(cells);
    text += table.text();
  }
  std::fputs(text.c_str(), stdout);
}

Json explained_json(const std::vector<Explained>& rows, const std::vector<Link>& links,
                    const NamedShape& shape, const Compute& compute) {
  Json report = report_head("bench --explain");
  report["environment"] = environment_json();
  report["environment"]["engine"] = compute.engine;  // all of the machine that counts
  report["contract"] = contract_json(compute.contract);
  report["shape"] = {
      {"name", shape.name}, {"hidden", shape.shape.hidden}, {"intermediate", shape.shape.intermediate}};
  report["links"] = Json::array();
  for (const Link& link : links)
    report["links"].push_back(
        {{"name", link.name}, {"bytes_per_second", link.bytes_per_second}, {"seconds", link.seconds}});
  report["rows"] = Json::array();
  for (const Explained& row : rows) {
    Json json{{"layout", name_of(row.layout)}, {"tokens", row.tokens}, {"direction", name_of(row.direction)}};
    if (!row.refused.empty()) {
      json["refused"] = row.refused;
      report["rows"].push_back(json);
      continue;
    }
    json["rank"] = row.rank;
    json["flops"] = row.flops;
    json["weight_bytes"] = row.weight_bytes;
    json["collectives"] = Json::array();
    for (const Collective& c : row.collectives) {
      Json one{{"what", c.what},         {"kind", name_of(c.kind)},
               {"ranks", c.ranks},       {"over", c.over_context ? "cp" : "tp"},
               {"times", c.times},       {"sent", c.sent},
               {"received", c.received}, {"between_machines", c.between_machines}};
      for (const Link& link : links) one["seconds"][link.name] = link.time(c);
      json["collectives"].push_back(one);
    }
    report["rows"].push_back(json);
  }
  return report;
}

}  // namespace samebits::tools
