// SPDX-License-Identifier: Apache-2.0
// The probes on this host, and the output of nvidia-smi.
#include "check/probe/gpu_query.hpp"
#include "check/probe/speed_probe.hpp"
#include "check/probe/system_probe.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <string>

namespace muster::check {
namespace {

TEST_CASE("check: the state of GPUs") {
  NodeFigures out;
  REQUIRE(
      parse_gpu_query("0, Not Active, Not Active, Not Active, 4\n"
                      "2, Not Active, Active, Not Active, 30000\n"
                      "[N/A], [N/A], [N/A], [N/A], [N/A]\n",
                      out));
  CHECK(out.values[Metric::gpus] == 3);
  CHECK(out.values[Metric::gpu_ecc_errors] == 2);
  CHECK(out.values[Metric::gpus_throttled] == 1);
  CHECK(out.values[Metric::gpu_memory_used] == 30000.0 * 1024 * 1024);
}

TEST_CASE("check: an error of nvidia-smi is no GPU") {
  NodeFigures out;
  CHECK_FALSE(parse_gpu_query("No devices were found\n", out));
  CHECK_FALSE(parse_gpu_query("", out));
  CHECK(out == NodeFigures{});
}

TEST_CASE("check: speeds are positive") {
  CHECK(measure_cpu(std::chrono::milliseconds(1)) > 1e6);
  const auto memory = measure_memory(std::chrono::milliseconds(1));
  REQUIRE(memory);
  CHECK(*memory > 1e6);
}

TEST_CASE("check: what the system reports") {
  NodeFigures out;
  read_limits(out);
  read_memory(out);
  CHECK(out.values[Metric::open_files] > 0);
  CHECK(out.values[Metric::processes] > 0);
  CHECK(out.values[Metric::memory_free] > 0);
  CHECK(out.unmeasured.empty());
}

TEST_CASE("check: a log folder that does not exist yet") {
  const std::string folder = std::filesystem::temp_directory_path();
  NodeFigures out;
  read_log_folder(folder + "/muster-none/runs/today", out);
  CHECK(out.problems.empty());
  CHECK(out.values[Metric::disk_free] > 0);
}

TEST_CASE("check: a log folder without write access") {
  NodeFigures out;
  read_log_folder("/proc/self", out);
  REQUIRE(out.problems.size() == 1);
  CHECK(out.problems[0].starts_with("cannot write to the log folder '/proc/self': "));
}

}  // namespace
}  // namespace muster::check
