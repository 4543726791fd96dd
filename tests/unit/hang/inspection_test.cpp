// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/inspection.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace muster::hang {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(250);

// Without tools that print stacks, so that a test does not need them.
InspectionTools tools() {
  return {.py_spy = "/nonexistent/py-spy",
          .environment = {"PATH=/nonexistent"},
          .read_recorders = [] { return std::vector<collective::FlightLog>(); }};
}

Evidence of_rank(int rank) {
  Evidence known{.limit = 7};
  known.ranks.push_back({.rank = rank});
  return known;
}

}  // namespace

TEST_CASE("inspection: keeps the given evidence, and observes the processes for a while") {
  asio::io_context loop;
  Inspection inspection(loop, tools());
  std::vector<Evidence> found;
  const TimePoint begun = steady_now();
  inspection.begin(of_rank(3), {::getpid()}, kInspectionMax, [&](Evidence evidence) {
    found.push_back(std::move(evidence));
  });
  CHECK(found.empty());
  loop.run();
  CHECK(steady_now() - begun >= kWindow);
  REQUIRE(found.size() == 1);
  CHECK(found[0].limit == 7);
  REQUIRE(found[0].ranks.size() == 1);
  CHECK(found[0].ranks[0].rank == 3);
  REQUIRE_FALSE(found[0].ranks[0].processes.empty());
  CHECK(found[0].ranks[0].processes[0].pid == ::getpid());
}

TEST_CASE("inspection: does not inspect a rank that has exited") {
  asio::io_context loop;
  Inspection inspection(loop, tools());
  Evidence found;
  inspection.begin(
      of_rank(3), {0}, kInspectionMax, [&](Evidence evidence) { found = std::move(evidence); });
  loop.run();
  REQUIRE(found.ranks.size() == 1);
  CHECK(found.ranks[0].processes.empty());
}

TEST_CASE(
    "inspection: a new inspection replaces the previous one, and none starts after a cancel") {
  asio::io_context loop;
  Inspection inspection(loop, tools());
  std::vector<int> seen;
  const auto note = [&](const Evidence& evidence) { seen.push_back(evidence.ranks.at(0).rank); };
  inspection.begin(of_rank(1), {0}, kInspectionMax, note);
  inspection.begin(of_rank(2), {0}, kInspectionMax, note);
  loop.run();
  CHECK(seen == std::vector{2});
  inspection.begin(of_rank(3), {0}, kInspectionMax, note);
  inspection.cancel();
  loop.restart();
  loop.run();
  CHECK(seen == std::vector{2});
}

TEST_CASE("inspection: ends in time even if a program that prints stacks hangs") {
  std::string folder = "/tmp/muster_inspection_XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::filesystem::path program = folder + "/eu-stack";
  std::ofstream(program) << "#!/bin/sh\nread line < " << folder << "/fifo\n";
  REQUIRE(::mkfifo((folder + "/fifo").c_str(), 0600) == 0);  // no process writes to it
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  InspectionTools hanging = tools();
  hanging.environment = {"PATH=" + folder};
  asio::io_context loop;
  Inspection inspection(loop, hanging);
  Evidence found;
  inspection.begin(of_rank(3), {::getpid()}, 2 * kWindow, [&](Evidence evidence) {
    found = std::move(evidence);
  });
  loop.run();
  std::filesystem::remove_all(folder);
  REQUIRE(found.gaps.size() == 1);
  CHECK(found.gaps[0] == "some stacks did not arrive in time");
}

}  // namespace muster::hang
