// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/report.hpp"

#include "support/catch.hpp"

#include <nlohmann/json.hpp>

using namespace muster::bench;

namespace {

Table example() {
  auto table = Table::of("launch", "Launch", "ms", {"1", "2"});
  table.add_row("muster").cells = {Cell{{1, 3, 2, 2, 2}, "", 0}, Cell{{4, 6}, "", 1}};
  table.add_row("peer").cells = {Cell{{}, "not installed", 0}, Cell{}};
  table.foreign = {2, 50};
  return table;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("report: a cell shows median and range") {
  CHECK(has(markdown_of(example()), "| muster | 2.00 (1.00–3.00) |"));
}

TEST_CASE("report: disturbed columns are starred, few samples and failures are counted") {
  CHECK(has(markdown_of(example()), "5.00* (4.00–6.00, n=2, 1 failed)"));
}

TEST_CASE("report: an absent peer keeps its row") {
  CHECK(has(markdown_of(example()), "| peer | not installed | – |"));
}

TEST_CASE("report: what has no samples has no picture") {
  auto empty = Table::of("gpu", "GPU", "µs", {"added"});
  empty.add_row("muster").cells[0].missing = "no GPU";
  const std::string text = markdown_of(Report{{}, {example(), empty}});
  CHECK(has(text, "![launch](launch.svg)"));
  CHECK(has(text, "| muster | no GPU |"));
  CHECK_FALSE(has(text, "gpu.svg"));
}

TEST_CASE("report: cells are found by table, row and column") {
  const Report report{{}, {example()}};
  CHECK(summary_of(find_cell(report, "launch", "muster", "2"))->median == 5);
  CHECK_FALSE(summary_of(find_cell(report, "launch", "peer", "1")));
  CHECK(find_cell(report, "launch", "muster", "3") == nullptr);
  CHECK(find_cell(report, "store", "muster", "1") == nullptr);
  CHECK(find_cell(report, "launch", "nobody", "1") == nullptr);
}

TEST_CASE("report: JSON keeps every sample and the reason of a missing one") {
  const auto json = nlohmann::json::parse(json_of(Report{{"a machine"}, {example()}}));
  const auto& rows = json["tables"][0]["rows"];
  CHECK(rows[0]["cells"][0]["samples"] == std::vector<double>{1, 3, 2, 2, 2});
  CHECK(rows[1]["cells"][0]["missing"] == "not installed");
  CHECK(json["conditions"][0] == "a machine");
}
