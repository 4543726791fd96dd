// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/goals.hpp"

#include "apps/muster-bench/names.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace muster::bench;

namespace {

Report launch(double muster, double hydra) {
  auto table = Table::of("launch", "Launch", "ms", {"2"});
  table.add_row(names::kMuster).cells = {Cell{{muster}, "", 0}};
  table.add_row(names::kHydra).cells = {Cell{{hydra}, "", 0}};
  return {{}, {table}};
}

Verdict verdict_on(const Report& report, const std::string& text) {
  const auto verdicts = judge(report);
  const auto found = std::ranges::find(verdicts, text, &Verdict::text);
  REQUIRE(found != verdicts.end());
  return *found;
}

constexpr auto kOverHydra = "2 × true: time over mpiexec.hydra's";

}  // namespace

TEST_CASE("goals: a ratio of medians is held against its limit") {
  CHECK(verdict_on(launch(2, 8), kOverHydra).measured == 0.25);
  CHECK(verdict_on(launch(2, 8), kOverHydra).met());
  CHECK_FALSE(verdict_on(launch(5, 8), kOverHydra).met());
}

TEST_CASE("goals: without the peer nothing is measured, and nothing is met") {
  const auto verdict = verdict_on(launch(2, 8), "2 × true: time over the bare program's");
  CHECK_FALSE(verdict.measured);
  CHECK_FALSE(verdict.met());
}

TEST_CASE("goals: a lower bound is met from above") {
  CHECK(Verdict{"", "", 4, false, 5}.met());
  CHECK_FALSE(Verdict{"", "", 4, false, 3}.met());
}

TEST_CASE("goals: every goal has its line, measured or not") {
  const auto verdicts = judge(Report{});
  const auto text = markdown_of(verdicts);
  CHECK(static_cast<std::size_t>(std::ranges::count(text, '\n')) == verdicts.size() + 2);
  CHECK(text.find("not measured") != std::string::npos);
}

TEST_CASE("goals: the storm is judged by the column that the store block writes") {
  auto table = Table::of("storm", "Storm", "ms", {"10,000 clients"});
  table.add_row(names::kStore).cells = {Cell{{400}, "", 0}};
  CHECK(verdict_on({{}, {table}}, "10,000 clients connect, set, get: ms").measured == 400);
}
