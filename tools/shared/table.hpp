// Tables on stdout: the first column flush left, the others flush right, as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace samebits::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> header, int left_columns = 1);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  int left_columns_;
};

}  // namespace samebits::tools
