// SPDX-License-Identifier: Apache-2.0
#include "collective/flight_recorder.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace muster::collective {
namespace {

Request sum(std::uint64_t seq) {
  Request request;
  request.kind = Kind::all_reduce;
  request.dtype = DType::f32;
  request.count = 100;
  request.seq = seq;
  return request;
}

struct Folder {
  std::string path;

  Folder() {
    std::array<char, 32> name{"/tmp/muster-flight-XXXXXX"};
    path = ::mkdtemp(name.data());
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  ~Folder() { std::filesystem::remove_all(path); }
};

TEST_CASE("flight recorder: another reader sees what was called, begun and completed") {
  const Folder folder;
  auto recorder = FlightRecorder::open(
      {.folder = folder.path, .name = "world/a", .rank = 2, .size = 4, .epoch = 7});
  REQUIRE(recorder.has_value());
  const auto first = (*recorder)->queued(sum(1), steady_now());
  (*recorder)->started_at(first, steady_now());
  (*recorder)->completed_at(first, steady_now());
  (*recorder)->queued(sum(2), steady_now());
  (*recorder)->started(sum(2));
  const auto log = read_flight((*recorder)->path());
  REQUIRE(log.has_value());
  CHECK(log->name == "world/a");
  CHECK(log->rank == 2);
  CHECK(log->epoch == 7);
  REQUIRE(log->records.size() == 2);
  CHECK(log->records[0].request == sum(1));
  CHECK(log->records[0].completed_ns != 0);
  CHECK(log->records[1].started_ns != 0);
  CHECK(log->records[1].completed_ns == 0);
}

TEST_CASE("flight recorder: only the newest are kept, and one without a folder is in memory") {
  auto recorder = FlightRecorder::open({.folder = "", .name = "w", .entries = 4});
  REQUIRE(recorder.has_value());
  for (std::uint64_t seq = 1; seq <= 10; ++seq) {
    (*recorder)->queued(sum(seq), steady_now());
    (*recorder)->completed(sum(seq));
  }
  const auto log = read_flight((*recorder)->path());
  REQUIRE(log.has_value());
  REQUIRE(log->records.size() == 4);
  CHECK(log->records.front().request.seq == 7);
  CHECK(log->records.back().request.seq == 10);
  CHECK(log->records.back().completed_ns != 0);
}

TEST_CASE("flight recorder: a folder that is not there is no reason to fail") {
  const auto recorder = FlightRecorder::open({.folder = "/nowhere", .name = "w"});
  REQUIRE(recorder.has_value());
  CHECK(read_flight((*recorder)->path()).has_value());
}

TEST_CASE("flight recorder: other files are refused") {
  const Folder folder;
  const std::string path = folder.path + "/x";
  std::ofstream(path) << "something else, but long enough to be the head of a recorder's file, "
                         "which has 112 bytes, as these words have, and a few more of them";
  const auto log = read_flight(path);
  REQUIRE_FALSE(log.has_value());
  CHECK(log.error().code == Errc::invalid_argument);
  CHECK_FALSE(read_flight(folder.path + "/y").has_value());
}

FlightLog log_of(int rank, std::uint64_t completed, bool waits) {
  FlightLog log;
  log.rank = rank;
  for (std::uint64_t seq = 1; seq <= completed + (waits ? 1 : 0); ++seq) {
    FlightRecord record;
    record.request = sum(seq);
    record.completed_ns = seq <= completed ? 1 : 0;
    log.records.push_back(record);
  }
  return log;
}

TEST_CASE("flight recorder: the view of all ranks names who is behind first") {
  CHECK(describe_flights({log_of(0, 118, true), log_of(3, 118, false), log_of(1, 118, true)}) ==
        "rank 3 last completed all_reduce #118 sum f32[100]\n"
        "ranks 0, 1 last completed all_reduce #118 sum f32[100], waits in all_reduce #119 sum "
        "f32[100]\n");
  CHECK(describe_flights({log_of(0, 5, false), log_of(1, 0, false)}) ==
        "rank 1 has completed nothing\nrank 0 last completed all_reduce #5 sum f32[100]\n");
}

}  // namespace
}  // namespace muster::collective
