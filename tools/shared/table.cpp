#include "shared/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace samebits::tools {

Table::Table(std::vector<std::string> header, int left_columns) : left_columns_(left_columns) {
  rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> row) {
  row.resize(rows_.front().size());
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const bool left = column < static_cast<std::size_t>(left_columns_);
      line += left ? fmt::format("{:<{}}", row[column], widths[column])
                   : fmt::format("{:>{}}", row[column], widths[column]);
      if (column + 1 < widths.size()) line += "  ";
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace samebits::tools
