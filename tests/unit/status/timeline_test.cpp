// SPDX-License-Identifier: Apache-2.0
#include "status/timeline.hpp"

#include "job_lines.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++out;
  }
  return out;
}

}  // namespace

TEST_CASE("timeline: one bar per node and worker in each round") {
  const std::string svg = timeline_svg(regrouped_job(), 130);
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<rect class=\"tl-a\"") == 3);
  CHECK(count(svg, "<rect class=\"tl-b\"") == 2);
  CHECK(count(svg, "<rect class=\"tl-stopped\"") == 2);
  CHECK(count(svg, "<rect class=\"tl-running\"") == 2);
  CHECK(count(svg, ">local rank 1<") == 1);
  CHECK(count(svg, "round 1: b, ranks 2 to 3; ended: node b is silent") == 1);
}

TEST_CASE("timeline: text from outside is escaped") {
  JobStatus status = running_job();
  status.rounds.back().nodes.at(1).name = "<script>\"&";
  const std::string svg = timeline_svg(status, 130);
  CHECK(count(svg, "<script>") == 0);
  CHECK(count(svg, "&lt;script&gt;&quot;&amp;") >= 1);
}

TEST_CASE("timeline: no events yet, and clocks that were set back") {
  CHECK(timeline_svg({}, 0).ends_with("</svg>\n"));
  CHECK(timeline_svg(running_job(), 3).find("nan") == std::string::npos);
  JobStatus status = running_job();
  add(status, 1e300, "round_begun", 2, kTwoNodes);
  add(status, -1e300, "job_ended", 2);
  const std::string svg = timeline_svg(status, status.changed);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}
