// What each layout moves between ranks, and how long that takes over given links, from sizes alone: nothing
// is computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bench_layout.hpp"
#include "compute/compute_flags.hpp"
#include "compute/report.hpp"
#include "samebits/traffic.hpp"
#include "samebits/transport.hpp"
#include "shared/shapes.hpp"

namespace samebits::tools {

// A collective takes `seconds`, and what a rank sends or receives, whichever is more, at `bytes_per_second`.
struct Link {
  std::string name;
  double bytes_per_second = 0;
  double seconds = 0;

  double time(const Collective& collective) const;
};

// "nvlink=240:11,400g=45:10": gigabytes a second and microseconds.
std::vector<Link> parse_links(const std::string& text);

struct Explained {
  Layout layout;
  std::int64_t tokens = 0;
  Direction direction = Direction::forward;
  std::string refused;  // why the layout cannot run; nothing else then
  int rank = 0;         // one that moves most
  std::vector<Collective> collectives;
  double flops = 0, weight_bytes = 0;  // of that rank
};

Explained explain(const Compute& compute, const Shape& shape, const Layout& layout, std::int64_t tokens,
                  Direction direction);

// What that rank moves in a call, all its collectives together.
Moved moved_in(const Explained& row);

void print_explained(const std::vector<Explained>& rows, const std::vector<Link>& links,
                     const NamedShape& shape, const Compute& compute);
Json explained_json(const std::vector<Explained>& rows, const std::vector<Link>& links,
                    const NamedShape& shape, const Compute& compute);

}  // namespace samebits::tools
