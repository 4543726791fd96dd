// SPDX-License-Identifier: Apache-2.0
#include "check/verdict_text.hpp"

#include "support/catch.hpp"

#include <string>

namespace muster::check {
namespace {

Verdict verdict_on_two() {
  NodeReport a{"a"};
  NodeReport b{"b"};
  a.figures.values = {{Metric::cpus, 2}, {Metric::memory_free, 8.0 * (1 << 30)}};
  b.figures.values = {{Metric::cpus, 2}, {Metric::memory_free, 6.0 * (1 << 30)}};
  return judge({a, b});
}

TEST_CASE("check: the text of a verdict without defects") {
  CHECK(verdict_text(verdict_on_two()) ==
        "2 nodes: no defects\n"
        "median of all nodes:\n"
        "  usable CPUs                    2\n"
        "  available memory               7.0 GiB: lowest 6.0 GiB (b), highest 8.0 GiB (a)\n");
}

TEST_CASE("check: the text of a verdict with defects") {
  Verdict verdict = verdict_on_two();
  verdict.findings = {{.node = 1, .name = "b", .median = {}, .text = "broken"}};
  verdict.more_findings = 4;
  verdict.unmeasured = {"node a: GPUs: no answer"};
  verdict.workers_ran = true;
  const std::string text = verdict_text(verdict);
  CHECK(
      text.starts_with("2 nodes: 5 defects\nnode b: broken\n4 more defects\nnot measured: node a: "
                       "GPUs: no answer\n"));
  CHECK(text.ends_with(
      "not measured while workers run: CPU speed, memory bandwidth, GPU memory in use\n"
      "not compared while workers run: available memory, free space in /dev/shm, network latency, "
      "network bandwidth\n"));
}

}  // namespace
}  // namespace muster::check
