// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/rounds.hpp"

#include "support/catch.hpp"

using namespace muster::bench;

namespace {

Rounds three_rounds() {
  return {{{"a", {{{"x", 10}}, {{"x", 20}}, {{"x", 10}}}},
           {"b", {{{"x", 30}}, {{"x", 200}}, {{"x", 50}}}},
           {"c", {{{"x", 40}}, {{"x", 100}}, {{"x", 20}}}},
           {"lost", {{}, {}, {}}}},
          {{"absent", "not installed"}}};
}

}  // namespace

TEST_CASE("rounds: lines are a key and a number, others are left out") {
  CHECK(parse_figures("f32:4 0.25\nhello\ntwo words here\nbad 1x\ndeath 1.5e3\n") ==
        Figures{{"f32:4", 0.25}, {"death", 1500}});
}

TEST_CASE("rounds: a row has one sample for each round") {
  auto table = Table::of("t", "T", "µs", {"x", "none"});
  fill_row(table, "A", three_rounds(), "a", {"x", ""});
  CHECK(table.rows[0].cells[0].samples == std::vector<double>{10, 20, 10});
  CHECK(table.rows[0].cells[1].samples.empty());
}

TEST_CASE("rounds: a peer that is absent, and one that failed, keep their rows") {
  auto table = Table::of("t", "T", "µs", {"x"});
  fill_row(table, "absent", three_rounds(), "absent", {"x"});
  fill_row(table, "lost", three_rounds(), "lost", {"x"});
  CHECK(table.rows[0].cells[0].missing == "not installed");
  CHECK(table.rows[1].cells[0].missing == "failed");
}

TEST_CASE("rounds: ratios are made within a round, with the better of the others") {
  auto table = Table::of("t", "T", "×", {"x"});
  fill_ratio(table, three_rounds(), {"b or c over a", {"b", "c", "lost"}, "a", {"x"}, {"x"}});
  CHECK(table.rows[0].cells[0].samples == std::vector<double>{3, 5, 2});
}

TEST_CASE("rounds: a round in which the yardstick was slow is left out for all") {
  auto rounds = three_rounds();
  CHECK(drop_disturbed(rounds, "a", "x", 1.5) == 1);
  auto table = Table::of("t", "T", "µs", {"x"});
  fill_row(table, "b", rounds, "b", {"x"});
  CHECK(table.rows[0].cells[0].samples == std::vector<double>{30, 50});
}

TEST_CASE("rounds: without a yardstick nothing is left out") {
  auto rounds = three_rounds();
  CHECK(drop_disturbed(rounds, "absent", "x", 1.5) == 0);
  CHECK(rounds.count() == 3);
}
