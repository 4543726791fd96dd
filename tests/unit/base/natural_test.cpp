// SPDX-License-Identifier: Apache-2.0
#include "base/natural.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace muster;

namespace {

using Names = std::vector<std::string>;

Names sorted(Names names) {
  std::ranges::sort(names, natural_less);
  return names;
}

}  // namespace

TEST_CASE("natural: numbers in names compare as numbers") {
  CHECK(sorted({"node70", "node66", "node8", "node7"}) ==
        Names{"node7", "node8", "node66", "node70"});
  CHECK(sorted({"r10-n2", "r2-n10", "r2-n9", "r10-n1"}) ==
        Names{"r2-n9", "r2-n10", "r10-n1", "r10-n2"});
  CHECK(sorted({"10.0.0.10", "10.0.0.9", "9.255.0.1"}) ==
        Names{"9.255.0.1", "10.0.0.9", "10.0.0.10"});
}

TEST_CASE("natural: numbers of any length, with or without leading zeros") {
  const std::string huge(400, '9');
  CHECK(natural_less("n" + huge, "n1" + huge));
  CHECK(natural_less("n18446744073709551616", "n18446744073709551617"));
  CHECK(sorted({"n010", "n9", "n008"}) == Names{"n008", "n9", "n010"});
  CHECK(natural_less("n0", "n1"));
}

TEST_CASE("natural: ignores case unless nothing else differs") {
  CHECK(sorted({"b1", "C1", "A1", "a2"}) == Names{"A1", "a2", "b1", "C1"});
  CHECK(natural_less("NODE7", "node66"));
  CHECK(natural_less("Node", "node"));
  CHECK(std::is_eq(natural_order("node", "node")));
  CHECK(std::is_neq(natural_order("n1", "n01")));
}

TEST_CASE("natural: a prefix precedes longer names, digits precede letters") {
  CHECK(natural_less("node7", "node7.cluster"));
  CHECK(natural_less("", "a"));
  CHECK(natural_less("node7", "nodea"));
}

TEST_CASE("natural: the order of any names is independent of their initial order") {
  const testing::Seed seed;
  testing::Dice dice(seed.value());
  INFO(seed.describe());
  Names names;
  for (int i = 0; i < 200; ++i) {
    std::string name;
    for (std::uint64_t size = dice.below(6); size > 0; --size) {
      name += "aB01.-9\xc3"[dice.below(8)];
    }
    names.push_back(name);
  }
  const Names once = sorted(names);
  std::ranges::reverse(names);
  CHECK(sorted(names) == once);
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (std::size_t j = i; j < once.size(); ++j) {
      CHECK_FALSE(natural_less(once[j], once[i]));
      CHECK(std::is_eq(natural_order(once[i], once[j])) == (once[i] == once[j]));
    }
  }
}
