// SPDX-License-Identifier: Apache-2.0
#include "straggler/job_waits.hpp"

#include "support/catch.hpp"
#include "two_nodes.hpp"

#include <variant>

namespace muster::straggler {
namespace {

using namespace std::chrono_literals;

NodeWaits of_node(const std::string& name, int first, int count) {
  NodeWaits out{.node = name, .rank_first = first, .ranks = count};
  for (int rank = first; rank < first + count; ++rank) {
    out.waits.push_back({.rank = rank, .groups = {{.group = "world", .operations = 1}}});
  }
  return out;
}

}  // namespace

TEST_CASE("job waits: a node that reports the longest possible times causes no overflow") {
  constexpr Duration kYear = std::chrono::hours(24 * 366);  // the maximum in a message
  NodeWaits told{.node = "liar", .rank_first = 0, .ranks = 1, .waits = {{.rank = 0}}};
  RankWaits& rank = told.waits.front();
  for (int group = 0; group < 2048; ++group) {
    rank.groups.push_back({.group = std::to_string(group)});
  }
  JobWaits waits;
  StragglerCore core;
  std::vector<StragglerEffect> effects;
  for (int look = 0; look < 2; ++look) {
    const TimePoint now = TimePoint{} + std::chrono::seconds(1 + look);
    waits.take(now, told);
    const auto ranks = waits.next(now);
    REQUIRE(ranks);
    core.looked(now, *ranks, effects);
    rank.at = kYear;
    for (GroupWaits& group : rank.groups) {
      group.operations = group.waits = UINT64_MAX;
      group.waited = kYear;
    }
  }
  CHECK(effects.empty());
  CHECK(core.shares().at(0) == 1.0);
}

TEST_CASE("job waits: evaluates once all nodes have sent new reports, or are silent") {
  JobWaits waits{};
  TimePoint now(1h);
  CHECK_FALSE(waits.next(now));
  waits.take(now, of_node("a", 0, 2));
  REQUIRE(waits.next(now));
  waits.take(now, of_node("b", 2, 2));
  CHECK_FALSE(waits.next(now));  // a has sent nothing since then
  now += 1s;
  CHECK_FALSE(waits.next(now));
  waits.take(now, of_node("a", 0, 2));
  REQUIRE(waits.next(now)->size() == 4);
  for (int i = 0; i < 5; ++i) {  // b has finished
    now += 1s;
    waits.take(now, of_node("a", 0, 2));
    const auto ranks = waits.next(now);
    CHECK(ranks.has_value() == (i >= 1));
    CHECK((!ranks || ranks->size() == 2));
  }
}

TEST_CASE("job waits: accepts reports only about a node's own ranks, up to the limit") {
  JobWaits waits{};
  const TimePoint now(1h);
  NodeWaits told = of_node("a", 2, 2);
  told.waits.push_back({.rank = 1, .groups = {{.group = "world"}}});
  told.waits.push_back({.rank = 4, .groups = {{.group = "world"}}});
  told.waits.push_back({.rank = -7, .groups = {{.group = "world"}}});
  waits.take(now, told);
  const auto ranks = waits.next(now);
  REQUIRE(ranks->size() == 2);
  CHECK(ranks->at(0).rank == 2);
  NodeWaits many = of_node("b", 4, 1);
  many.waits[0].groups.resize(kJobSumsMax);
  waits.take(now, many);
  CHECK(waits.places_of({4}).empty());
  many.waits[0].groups.resize(kJobSumsMax - 2);
  waits.take(now, many);
  CHECK(waits.places_of({4}).size() == 1);
}

TEST_CASE("job waits: a node whose ranks are all slow is marked as whole") {
  JobWaits waits{};
  waits.take(TimePoint(1h), of_node("a", 0, 2));
  waits.take(TimePoint(1h), of_node("b", 2, 2));
  CHECK(waits.places_of({1, 2, 3}) ==
        std::vector<SlowPlace>{{.node = "a", .ranks = {1}, .whole = false},
                               {.node = "b", .ranks = {2, 3}, .whole = true}});
}

TEST_CASE("job waits: compares nodes that report at different times and with different clocks") {
  const JobShape shape{.ranks = 4, .step = 0.05, .noise = 0.1};
  for (const bool slow : {false, true}) {
    TwoNodes nodes{.job = SimulatedJob(shape, 7)};
    if (slow) {
      nodes.job.slow_down(2, 0.5);
      nodes.job.slow_down(3, 0.5);
    }
    nodes.play(30);
    REQUIRE(nodes.effects.size() == (slow ? 1 : 0));
    if (slow) {
      const Slow found = std::get<Named>(nodes.effects[0]).slow;
      CHECK(found.ranks == std::vector<int>{2, 3});
      CHECK(found.share == Approx(1.0 / 3).epsilon(0.2));
    }
  }
}

TEST_CASE("job waits: a new coordinator starts with the reports that it receives") {
  const JobShape shape{.ranks = 4, .step = 0.05};
  TwoNodes nodes{.job = SimulatedJob(shape, 7)};
  nodes.job.slow_down(1, 0.5);
  nodes.play(5);
  nodes.waits.begin();  // a new coordinator, in the middle
  nodes.core.begin();
  REQUIRE(nodes.effects.empty());
  nodes.play(20);
  REQUIRE(std::get<Named>(nodes.effects.at(0)).slow.ranks == std::vector<int>{1});
}

}  // namespace muster::straggler
