#include "shared/table.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

TEST(Table, AlignsNamesLeftAndNumbersRight) {
  Table table({"layout", "output", "seconds"});
  table.add({"tp1", "0", "0.25"});
  table.add({"tp2+cp2+sp", "131072", "12.50"});
  EXPECT_EQ(table.text(),
            "layout      output  seconds\n"
            "tp1              0     0.25\n"
            "tp2+cp2+sp  131072    12.50\n");
}

TEST(Table, ShortRowsAreFilledAndLinesEndWithTheirLastCell) {
  Table table({"tensor", "status", ""}, 3);
  table.add({"y"});
  EXPECT_EQ(table.text(), "tensor  status\ny\n");
}

}  // namespace
}  // namespace samebits::tools
