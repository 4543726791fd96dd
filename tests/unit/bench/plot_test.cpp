// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/plot.hpp"

#include "support/catch.hpp"

using namespace muster::bench;

namespace {

Table example() {
  auto table = Table::of("rate", "Rate <of> a & b", "requests/s", {"1", "8"});
  table.add_row("muster-store").cells = {Cell{{20, 30, 40}, "", 0}, Cell{{2000}, "", 0}};
  table.add_row("peer").cells = {Cell{{}, "not installed", 0}, Cell{{100}, "", 0}};
  return table;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("plot: the scale spans whole powers of ten around all samples") {
  CHECK(decades_of(example()) == Decades{1, 4});
  CHECK(decades_of(Table{}) == Decades{0, 1});
}

TEST_CASE("plot: a single power of ten still has a height") {
  auto table = Table::of("one", "One", "ms", {"1"});
  table.add_row("a").cells = {Cell{{100}, "", 0}};
  CHECK(decades_of(table) == Decades{2, 3});
}

TEST_CASE("plot: every measured cell is a bar with whiskers and a label, an absent one a word") {
  const auto svg = svg_of(example());
  CHECK(count(svg, "class=\"whisker\"") == 3);
  CHECK(count(svg, ">30.0</text>") == 1);
  CHECK(count(svg, ">2000</text>") == 1);
  CHECK(count(svg, ">not installed</text>") == 1);
}

TEST_CASE("plot: words are escaped") {
  CHECK(count(svg_of(example()), "Rate &lt;of&gt; a &amp; b") == 1);
}
