// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/sorted_names.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace muster;
using testing::Dice;
using testing::Seed;

namespace {

std::vector<std::string> taken(SortedNames& names) {
  std::vector<std::string> out;
  for (; !names.empty(); names.pop()) {
    out.emplace_back(names.front());
  }
  return out;
}

}  // namespace

TEST_CASE("sorted names: names of all lengths are returned in order") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  for (const std::size_t count : {0UL, 1UL, 2UL, 1023UL, 1024UL, 1025UL, 5000UL}) {
    SortedNames names;
    std::vector<std::string> expected;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      // Long ones fill the text of a run before it has its greatest number of names.
      expected.push_back(dice.bytes(dice.below(dice.below(10) == 0 ? 8192 : 20)));
      bytes += expected.back().size();
      names.add(expected.back());
    }
    CHECK(names.count() == count);
    CHECK(names.bytes() == bytes);
    TurnBudget budget(1'000'000);
    REQUIRE(names.sort(budget));
    std::ranges::sort(expected);
    CHECK(taken(names) == expected);
  }
}

TEST_CASE("sorted names: one turn sorts a part") {
  SortedNames names;
  for (int i = 0; i < 5000; ++i) {
    names.add(std::to_string(i));
  }
  std::size_t turns = 1;
  for (TurnBudget budget(1024); !names.sort(budget); ++turns) {
    REQUIRE(budget.used_up());
    budget = TurnBudget(1024);
  }
  CHECK(turns == 5);
  CHECK(std::ranges::is_sorted(taken(names)));
}
