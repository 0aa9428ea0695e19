// Contractions by the tree: against sums written by hand, from covers, over empty axes and with rows of
// zeros.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "numerics/leaf.hpp"
#include "numerics/walk.hpp"
#include "reference/reference.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

using numerics::AxisTree;
using numerics::bits;
using numerics::WalkStep;
using reference::Bf16;
using reference::Vector;

std::vector<Bf16> random_vector(std::int64_t length, std::mt19937_64& random) {
  std::vector<Bf16> out(length);
  for (Bf16& x : out) x = static_cast<Bf16>(0x3E00u + (random() & 0x1FFu) + ((random() & 1u) << 15));
  return out;
}

constexpr const char* kContracts[] = {"bf16-tree-v1",
                                      "f32-tree-v1",
                                      "sm90-v1",
                                      "hf-sm90-v1",
                                      "gfx942-v1",
                                      "f32-tree-v1,I=block:16",
                                      "sm90-v1,I=block:48",
                                      "sm90-v1,node=bf16,I=max:40"};

// Three leaves, summed as the page says. Catches a leaf that is rounded in an f32 tree, nodes that are not
// rounded in a bf16 tree, and leaves summed from the other end.
TEST(Contraction, IsTheSumOfItsLeaves) {
  std::mt19937_64 random(20);
  int order_shows = 0, rounding_shows = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<Bf16> a = random_vector(80, random), b = random_vector(80, random);
    const auto leaf = [&](std::int64_t begin, std::int64_t end) {
      float acc = 0.0f;
      for (std::int64_t k = begin; k < end; ++k)
        acc = std::fma(numerics::widen(a[k]), numerics::widen(b[k]), acc);
      return acc;
    };
    const auto bf16 = [](float x) { return numerics::rounded_bf16(x); };
    const float l0 = leaf(0, 32), l1 = leaf(32, 64), l2 = leaf(64, 80);

    Contract contract = parse_contract("f32-tree-v1,I=block:32");
    AxisTree tree = numerics::axis_tree(contract, contract.intermediate, 80);
    const float f32_root = reference::root(contract, tree, {a.data()}, {b.data()});
    ASSERT_EQ(bits(f32_root), bits((l0 + l1) + l2));

    contract = parse_contract("bf16-tree-v1,I=block:32");
    tree = numerics::axis_tree(contract, contract.intermediate, 80);
    const float bf16_root = reference::root(contract, tree, {a.data()}, {b.data()});
    ASSERT_EQ(bits(bf16_root), bits(bf16(bf16(bf16(l0) + bf16(l1)) + bf16(l2))));

    order_shows += bits((l0 + l1) + l2) != bits(l0 + (l1 + l2)) ? 1 : 0;
    rounding_shows += bits(bf16_root) != bits(bf16((l0 + l1) + l2)) ? 1 : 0;
  }
  EXPECT_GT(order_shows, 0);
  EXPECT_GT(rounding_shows, 0);
}

TEST(Contraction, StridesReachTheSameElements) {
  std::mt19937_64 random(21);
  const std::vector<Bf16> a = random_vector(300, random), b = random_vector(300, random);
  std::vector<Bf16> wide(300 * 7);
  for (std::int64_t k = 0; k < 300; ++k) wide[k * 7] = a[k];
  for (const char* name : kContracts) {
    const Contract contract = parse_contract(name);
    const AxisTree tree = numerics::axis_tree(contract, contract.intermediate, 300);
    EXPECT_EQ(bits(reference::root(contract, tree, {wide.data(), 7}, {b.data()})),
              bits(reference::root(contract, tree, {a.data()}, {b.data()})))
        << name;
  }
}

TEST(Contraction, AnEmptyAxisSumsToPlusZero) {
  for (const char* name : kContracts) {
    const Contract contract = parse_contract(name);
    const AxisTree tree = numerics::axis_tree(contract, contract.intermediate, 0);
    EXPECT_EQ(bits(reference::root(contract, tree, {}, {})), 0u) << name;
  }
}

// Whoever holds all the covers finishes the tree: the root's very bits, however the axis was cut.
TEST(Contraction, CoversFinishToTheRoot) {
  std::mt19937_64 random(22);
  for (const char* name : kContracts) {
    const Contract contract = parse_contract(name);
    for (const std::int64_t length : {1, 15, 16, 17, 100, 208, 513}) {
      const std::vector<Bf16> a = random_vector(length, random), b = random_vector(length, random);
      const AxisTree tree = numerics::axis_tree(contract, contract.intermediate, length);
      const auto value_of = [&](std::int64_t begin, std::int64_t end) {  // a node by its interval
        numerics::TreeNode node = tree.root();
        while (node.begin != begin || node.end != end) {
          node = end <= tree.split(node) ? tree.lower(node) : tree.upper(node);
        }
        return reference::node_value(contract, tree, node, {a.data()}, {b.data()});
      };
      std::vector<std::int64_t> ends;
      std::int64_t begin = 0;
      for (std::int64_t cut = 1; cut <= length; ++cut) {
        if (!tree.cuts_between_leaves(cut) || (cut != length && random() % 2 == 0)) continue;
        numerics::for_each_cover_node(tree, begin, cut,
                                      [&](const WalkStep& node) { ends.push_back(node.end); });
        begin = cut;
      }
      std::vector<float> stack;
      ASSERT_TRUE(numerics::for_each_finish_step(
          tree, static_cast<std::int64_t>(ends.size()), [&](std::int64_t i) { return ends[i]; },
          [&](const WalkStep& step) {
            stack.push_back(value_of(step.begin, step.end));
            for (int merge = 0; merge < step.merges; ++merge) {
              const float upper = stack.back();
              stack.pop_back();
              stack.back() = numerics::node(contract.node, stack.back() + upper);
            }
          }));
      ASSERT_EQ(stack.size(), 1u);
      EXPECT_EQ(bits(stack[0]), bits(reference::root(contract, tree, {a.data()}, {b.data()})))
          << name << " length " << length;
    }
  }
}

// Under `block` rows of zeros appended at the end change nothing but, at most, the sign of a zero.
TEST(Contraction, ZerosAppendedToABlockTreeChangeNothing) {
  std::mt19937_64 random(23);
  for (const char* name : {"f32-tree-v1,I=block:16", "sm90-v1,I=block:48", "gfx942-v1,I=block:16",
                           "f32-tree-v1,I=block:16,node=bf16"}) {
    const Contract contract = parse_contract(name);
    for (std::int64_t length = 1; length <= 200; length += 13) {
      std::vector<Bf16> a = random_vector(length, random), b = random_vector(length, random);
      const auto sum = [&] {
        const AxisTree tree =
            numerics::axis_tree(contract, contract.intermediate, static_cast<std::int64_t>(a.size()));
        return reference::root(contract, tree, {a.data()}, {b.data()});
      };
      const float before = sum();
      for (const std::int64_t longer : {length + 1, length + 16, 2 * length + 5, 4 * length + 100}) {
        a.resize(longer, 0);
        b.resize(longer, 0);
        const float after = sum();
        EXPECT_TRUE(before == 0.0f ? after == 0.0f : bits(after) == bits(before))
            << name << " " << length << " to " << longer;
      }
    }
  }
}

// The control: under `halve` and `max` the splits move with the length, and bits change.
TEST(Contraction, ZerosAppendedToOtherTreesShow) {
  std::mt19937_64 random(24);
  for (const char* name : {"f32-tree-v1,I=halve:3", "f32-tree-v1,I=max:16"}) {
    const Contract contract = parse_contract(name);
    int changed = 0;
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<Bf16> a = random_vector(100, random), b = random_vector(100, random);
      const float before = reference::root(
          contract, numerics::axis_tree(contract, contract.intermediate, 100), {a.data()}, {b.data()});
      a.resize(150, 0);
      b.resize(150, 0);
      const float after = reference::root(contract, numerics::axis_tree(contract, contract.intermediate, 150),
                                          {a.data()}, {b.data()});
      changed += bits(after) != bits(before) ? 1 : 0;
    }
    EXPECT_GT(changed, 0) << name;
  }
}

}  // namespace
}  // namespace samebits::test
