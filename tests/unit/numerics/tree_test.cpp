// The tree of an axis against a second construction (tree_model.hpp), and what the contract promises of it.
#include "numerics/tree.hpp"

#include <gtest/gtest.h>

#include <random>

#include "numerics/contract_text.hpp"
#include "unit/numerics/tree_model.hpp"

namespace samebits::test {
namespace {

using numerics::AxisTree;
using numerics::TreeNode;

void expect_model(const AxisTree& tree) {
  ASSERT_EQ(text_of(read_tree(tree)), text_of(model_tree(tree.rule, tree.granule, tree.length)))
      << name_of(tree);
}

// Catches `<` for `<=` where `max` stops, a split rounded up, `halve` that counts levels wrong or stops at
// 2g, `block` that splits at the largest power of two up to n instead of below n.
TEST(Tree, SmallTreesEqualTheModel) {
  for (const AxisTree& tree : small_trees(false)) expect_model(tree);
}

TEST(Tree, RandomTreesEqualTheModel) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t granule = random() % 2 == 0 ? 1 : 16;
    const std::int64_t length = static_cast<std::int64_t>(random() % 30000);
    const std::int64_t longest = granule * (1 + static_cast<std::int64_t>(random() % 200));
    expect_model({{Rule::max, longest + static_cast<std::int64_t>(random() % 16)}, granule, length, false});
    expect_model({{Rule::block, longest}, granule, length, false});
    expect_model({{Rule::halve, static_cast<std::int64_t>(random() % 9)}, granule, length, false});
  }
}

// By hand, so that the model and the code cannot be wrong together.
TEST(Tree, WrittenOut) {
  const auto text = [](Rule rule, std::int64_t value, std::int64_t granule, std::int64_t length) {
    return text_of(read_tree({{rule, value}, granule, length, false}));
  };
  EXPECT_EQ(text(Rule::max, 32, 1, 0), "0-0");
  EXPECT_EQ(text(Rule::max, 32, 1, 32), "0-32");
  EXPECT_EQ(text(Rule::max, 32, 1, 33), "(0-16+16-33)");
  EXPECT_EQ(text(Rule::max, 32, 1, 77), "((0-19+19-38)+(38-57+57-77))");
  EXPECT_EQ(text(Rule::max, 32, 16, 77), "(0-32+(32-48+48-77))");
  EXPECT_EQ(text(Rule::max, 16, 16, 31), "(0-16+16-31)");
  EXPECT_EQ(text(Rule::halve, 0, 16, 77), "0-77");
  EXPECT_EQ(text(Rule::halve, 2, 16, 77), "((0-16+16-32)+(32-48+48-77))");
  EXPECT_EQ(text(Rule::halve, 3, 1, 5), "((0-1+1-2)+(2-3+(3-4+4-5)))");
  EXPECT_EQ(text(Rule::halve, 9, 16, 31), "0-31") << "shorter than 2g";
  EXPECT_EQ(text(Rule::halve, 9, 16, 32), "(0-16+16-32)");
  EXPECT_EQ(text(Rule::block, 16, 16, 77), "(((0-16+16-32)+(32-48+48-64))+64-77)");
  EXPECT_EQ(text(Rule::block, 16, 16, 64), "((0-16+16-32)+(32-48+48-64))");
  EXPECT_EQ(text(Rule::block, 16, 16, 112), "(((0-16+16-32)+(32-48+48-64))+((64-80+80-96)+96-112))");
}

// Every inner boundary is a multiple of the granule: groups of sixteen never straddle leaves.
TEST(Tree, LeavesHoldWholeGranules) {
  for (const bool moved : {false, true}) {
    for (const AxisTree& tree : small_trees(moved)) {
      for (const std::int64_t boundary : leaf_boundaries(read_tree(tree))) {
        ASSERT_TRUE(boundary == tree.length || boundary % tree.granule == 0)
            << name_of(tree) << " at " << boundary;
      }
    }
  }
}

// What is summed stays summed: the nodes of a block tree that are full, aligned powers of two of leaves are
// nodes of every longer tree of that block.
TEST(Tree, BlockTreesGrowAtTheRightEdgeOnly) {
  for (std::int64_t length = 0; length <= 200; ++length) {
    const AxisTree shorter{{Rule::block, 3}, 1, length, false};
    for (std::int64_t more = 1; more <= 40; ++more) {
      const AxisTree longer{{Rule::block, 3}, 1, length + more, false};
      const std::string grown = text_of(read_tree(longer));
      for_each_model_node(read_tree(shorter), [&](const ModelTree& node) {
        const std::int64_t leaves = (node->end - node->begin) / 3;
        const bool full = leaves * 3 == node->end - node->begin && leaves > 1 && (leaves & (leaves - 1)) == 0;
        if (!full || node->begin % (leaves * 3) != 0) return;
        ASSERT_NE(grown.find(text_of(node)), std::string::npos) << text_of(node) << " in " << grown;
      });
    }
  }
}

TEST(Tree, DepthIsBounded) {
  const std::int64_t lengths[] = {
      1, 1000, 12288, (std::int64_t{1} << 40) - 1, std::int64_t{1} << 40, (std::int64_t{1} << 40) + 17};
  for (const std::int64_t length : lengths) {
    for (const AxisTree& tree :
         {AxisTree{{Rule::max, 1}, 1, length, false}, AxisTree{{Rule::max, 16}, 16, length, false},
          AxisTree{{Rule::halve, 40}, 1, length, false}, AxisTree{{Rule::block, 1}, 1, length, true}}) {
      for (const bool up : {false, true}) {  // the two outer paths are the longest, or one short of it
        TreeNode node = tree.root();
        while (!tree.is_leaf(node)) node = up ? tree.upper(node) : tree.lower(node);
        EXPECT_LT(node.depth, numerics::kMaxTreeDepth) << name_of(tree);
      }
    }
  }
}

TEST(Tree, CutsBetweenLeavesAreItsLeafBoundaries) {
  for (const bool moved : {false, true}) {
    for (const AxisTree& tree : small_trees(moved)) {
      const std::vector<std::int64_t> boundaries = leaf_boundaries(read_tree(tree));
      for (std::int64_t at = -2; at <= tree.length + 2; ++at) {
        const bool expected = std::binary_search(boundaries.begin(), boundaries.end(), at);
        ASSERT_EQ(tree.cuts_between_leaves(at), expected) << name_of(tree) << " at " << at;
      }
    }
  }
}

// The control of `verify` is another tree wherever there is room for one, off by one granule in its first
// split.
TEST(Tree, AMovedSplitIsOneGranuleOff) {
  for (const AxisTree& moved : small_trees(true)) {
    AxisTree ruled = moved;
    ruled.moved = false;
    const bool ruled_leaf = ruled.is_leaf(ruled.root());
    if (ruled.length < 2 * ruled.granule) {
      ASSERT_EQ(text_of(read_tree(moved)), text_of(read_tree(ruled))) << name_of(moved) << ": no room";
      continue;
    }
    ASSERT_FALSE(moved.is_leaf(moved.root())) << name_of(moved);
    const std::int64_t split = moved.split(moved.root());
    ASSERT_GT(split, 0);
    ASSERT_LT(split, moved.length);
    if (ruled_leaf) {
      ASSERT_EQ(split, model_split(0, moved.length, moved.granule)) << name_of(moved);
      continue;
    }
    const std::int64_t distance = std::abs(split - ruled.split(ruled.root()));
    const bool room = ruled.length > 2 * ruled.granule;
    ASSERT_EQ(distance, room ? ruled.granule : 0) << name_of(moved);
  }
}

// docs/numerics.md section 5: TP 2, 4 and 8 cut I between leaves for every Qwen3 size.
TEST(Tree, PresetsCutEveryQwen3SizeBetweenLeaves) {
  struct Size {
    const char* name;
    std::int64_t hidden, intermediate;
  };
  constexpr Size kSizes[] = {{"0.6B", 1024, 3072}, {"1.7B", 2048, 6144}, {"4B", 2560, 9728},
                             {"8B", 4096, 12288},  {"14B", 5120, 17408}, {"32B", 5120, 25600}};
  for (const char* preset : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "gfx942-v1"}) {
    Contract contract;
    ASSERT_EQ(numerics::parse_contract_text(preset, contract).problem, nullptr);
    for (const Size& size : kSizes) {
      const AxisTree tree = numerics::axis_tree(contract, contract.intermediate, size.intermediate);
      for (const std::int64_t tp : {2, 4, 8}) {
        for (std::int64_t rank = 0; rank <= tp; ++rank) {
          EXPECT_TRUE(tree.cuts_between_leaves(size.intermediate * rank / tp))
              << preset << " " << size.name << " tp" << tp << " rank " << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace samebits::test
