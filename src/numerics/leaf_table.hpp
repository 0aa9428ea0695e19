// The leaf arithmetics by name: one line each. What a line stands for is in leaf_NAME.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "samebits/contract.hpp"

namespace samebits::numerics {

struct LeafLine {
  Leaf leaf;
  std::string_view name;
  std::int64_t granule;  // shards and splits fall at multiples of it
};

inline constexpr LeafLine kLeafTable[] = {
    {Leaf::fma, "fma", 1},
    {Leaf::sm90, "sm90", 16},
    {Leaf::gfx942, "gfx942", 16},
};
inline constexpr std::size_t kLeafCount = std::size(kLeafTable);

constexpr const LeafLine& line_of(Leaf leaf) { return kLeafTable[static_cast<std::size_t>(leaf)]; }
constexpr std::int64_t granule_of(Leaf leaf) { return line_of(leaf).granule; }

}  // namespace samebits::numerics
