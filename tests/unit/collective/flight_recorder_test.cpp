// SPDX-License-Identifier: Apache-2.0
#include "collective/recorder/flight_recorder.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

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

TEST_CASE(
    "flight recorder: another process reads which operations were called, started and completed") {
  const Folder folder;
  auto recorder = FlightRecorder::open(
      {.folder = folder.path, .name = "world/a", .rank = 2, .size = 4, .epoch = 7});
  REQUIRE(recorder.has_value());
  const auto first = (*recorder)->queued(sum(1), steady_now());
  (*recorder)->started_at(first, steady_now());
  (*recorder)->completed_at(first, steady_now());
  (*recorder)->queued(sum(2), steady_now());
  (*recorder)->started(sum(2));
  const auto logs = read_flight_recorders((*recorder)->path());
  REQUIRE(logs.has_value());
  REQUIRE(logs->size() == 1);
  const FlightLog* const log = logs->data();
  CHECK(log->name == "world/a");
  CHECK(log->rank == 2);
  CHECK(log->epoch == 7);
  REQUIRE(log->records.size() == 2);
  CHECK(log->records[0].request == sum(1));
  CHECK(log->records[0].completed_ns != 0);
  CHECK(log->records[1].started_ns != 0);
  CHECK(log->records[1].completed_ns == 0);
}

TEST_CASE("flight recorder: operations on a GPU are numbered separately") {
  auto recorder = FlightRecorder::open({.name = "w"});
  REQUIRE(recorder.has_value());
  Request on_gpu = sum(1);
  on_gpu.device = 0;
  (*recorder)->queued(on_gpu, steady_now());
  (*recorder)->queued(sum(1), steady_now());
  (*recorder)->completed(on_gpu);
  const auto logs = read_flight_recorders((*recorder)->path());
  REQUIRE(logs.has_value());
  CHECK((*logs)[0].records.at(0).completed_ns != 0);
  CHECK((*logs)[0].records.at(1).completed_ns == 0);
  CHECK(describe_flight_recorders(*logs) ==
        "rank 0 last completed all_reduce #1 sum f32[100] on a GPU, waiting in all_reduce #1 sum "
        "f32[100]\n");
}

TEST_CASE("flight recorder: keeps only the newest entries, in memory if there is no folder") {
  auto recorder = FlightRecorder::open({.folder = "", .name = "w", .entries = 4});
  REQUIRE(recorder.has_value());
  for (std::uint64_t seq = 1; seq <= 10; ++seq) {
    (*recorder)->queued(sum(seq), steady_now());
    (*recorder)->completed(sum(seq));
  }
  const auto logs = read_flight_recorders((*recorder)->path());
  REQUIRE(logs.has_value());
  REQUIRE(logs->size() == 1);
  const FlightLog* const log = logs->data();
  REQUIRE(log->records.size() == 4);
  CHECK(log->records.front().request.seq == 7);
  CHECK(log->records.back().request.seq == 10);
  CHECK(log->records.back().completed_ns != 0);
}

TEST_CASE("flight recorder: ranks on one host share memory in which all of them can be read") {
  constexpr std::size_t kEntries = 100;
  const auto shared = SharedMemory::create("flight-w", 3 * FlightRecorder::bytes_for(kEntries));
  REQUIRE(shared.has_value());
  const auto open = [&shared](int rank) {
    return *FlightRecorder::open({.name = "w",
                                  .rank = rank,
                                  .size = 3,
                                  .entries = kEntries,
                                  .shared = *shared,
                                  .self = static_cast<std::size_t>(rank),
                                  .ranks = 3});
  };
  const auto last = open(2);
  last->completed_at(last->queued(sum(8), steady_now()), steady_now());
  {
    const auto first = open(0);
    first->queued(sum(9), steady_now());
  }
  // Rank 1 has not arrived; rank 0 has exited.
  const auto logs = read_flight_recorders(last->path());
  REQUIRE(logs.has_value());
  REQUIRE(logs->size() == 2);
  CHECK((*logs)[0].rank == 0);
  CHECK((*logs)[0].records.at(0).request == sum(9));
  CHECK((*logs)[1].rank == 2);
  CHECK((*logs)[1].records.at(0).request == sum(8));
}

// With numbers as for operations on GPUs.
Request on_gpu(Kind kind, std::uint64_t seq, int other = -1) {
  Request out = sum(seq);
  out.kind = kind;
  out.root = other;
  out.device = 0;
  return out;
}

TEST_CASE("flight recorder: reads what another rank on the host called at the same position") {
  constexpr std::size_t kEntries = 8;
  const auto shared = SharedMemory::create("flight-w", 3 * FlightRecorder::bytes_for(kEntries));
  REQUIRE(shared.has_value());
  const auto open = [&shared](int rank, std::size_t entries) {
    return *FlightRecorder::open({.name = "w",
                                  .rank = rank,
                                  .size = 3,
                                  .entries = entries,
                                  .shared = *shared,
                                  .self = static_cast<std::size_t>(rank),
                                  .ranks = 3});
  };
  const auto mine = open(0, kEntries);
  const auto theirs = open(1, kEntries);
  const auto called = [&](const Request& at) { return mine->called_by(1, at); };
  CHECK_FALSE(called(on_gpu(Kind::all_reduce, 1)));
  CHECK_FALSE(mine->called_by(2, on_gpu(Kind::all_reduce, 1)));  // it has not arrived
  for (std::uint64_t seq = 1; seq <= 3; ++seq) {
    theirs->queued(on_gpu(Kind::broadcast, seq, 2), steady_now());
    theirs->queued(on_gpu(Kind::recv, seq, seq == 2 ? 0 : 2), steady_now());
  }
  REQUIRE(called(on_gpu(Kind::all_reduce, 2)));
  CHECK(called(on_gpu(Kind::all_reduce, 2))->describe() ==
        on_gpu(Kind::broadcast, 2, 2).describe());
  CHECK_FALSE(called(on_gpu(Kind::all_reduce, 4)));  // it is behind
  CHECK(called(on_gpu(Kind::send, 2, 1)));
  CHECK_FALSE(called(on_gpu(Kind::send, 1, 1)));  // from another rank
  CHECK_FALSE(called(on_gpu(Kind::recv, 2, 1)));  // not the matching side
  theirs->queued(sum(4), steady_now());           // on the host
  CHECK_FALSE(called(on_gpu(Kind::all_reduce, 4)));
  for (std::uint64_t seq = 4; seq <= 12; ++seq) {
    theirs->queued(on_gpu(Kind::broadcast, seq, 2), steady_now());
  }
  CHECK(called(on_gpu(Kind::all_reduce, 5)));
  CHECK_FALSE(called(on_gpu(Kind::all_reduce, 4)));  // overwritten
  // Not the memory shared by all ranks, because this needs more.
  const auto alone = open(2, 1000);
  alone->queued(on_gpu(Kind::broadcast, 5, 2), steady_now());
  CHECK_FALSE(mine->called_by(2, on_gpu(Kind::all_reduce, 5)));
  CHECK_FALSE(alone->called_by(1, on_gpu(Kind::all_reduce, 5)));
}

TEST_CASE("flight recorder: uses its own memory if the shared memory is too small") {
  const auto shared = SharedMemory::create("flight-w", FlightRecorder::bytes_for(4));
  REQUIRE(shared.has_value());
  const auto recorder = FlightRecorder::open({.name = "w", .entries = 1000, .shared = *shared});
  REQUIRE(recorder.has_value());
  (*recorder)->queued(sum(1), steady_now());
  CHECK(read_flight_recorders((*recorder)->path()).has_value());
  CHECK(shared->fd() != -1);
  CHECK_FALSE(read_flight_recorders("/proc/self/fd/" + std::to_string(shared->fd())).has_value());
}

TEST_CASE("flight recorder: a missing folder is not an error") {
  const auto recorder = FlightRecorder::open({.folder = "/nowhere", .name = "w"});
  REQUIRE(recorder.has_value());
  CHECK(read_flight_recorders((*recorder)->path()).has_value());
}

TEST_CASE("flight recorder: rejects other files") {
  const Folder folder;
  const std::string path = folder.path + "/x";
  std::ofstream(path) << "something else, but long enough to be the head of a recorder's file, "
                         "which has 112 bytes, as this text has, and a few more of them";
  const auto log = read_flight_recorders(path);
  REQUIRE_FALSE(log.has_value());
  CHECK(log.error().code == Errc::invalid_argument);
  CHECK_FALSE(read_flight_recorders(folder.path + "/y").has_value());
}

TEST_CASE("flight recorder: reads a file with an invalid header or size without crashing") {
  const Folder folder;
  auto recorder = FlightRecorder::open({.folder = folder.path, .name = "a", .entries = 4});
  REQUIRE(recorder.has_value());
  const std::string path = (*recorder)->path();
  for (std::uint64_t seq = 1; seq <= 6; ++seq) {
    (*recorder)->completed_at((*recorder)->queued(sum(seq), steady_now()), steady_now());
  }
  const auto newest = read_flight_recorders(path, 2);
  REQUIRE(newest.has_value());
  REQUIRE(newest->front().records.size() == 2);
  CHECK(newest->front().records[0].request == sum(5));
  CHECK(newest->front().records[1].request == sum(6));

  // A sparse terabyte.
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  CHECK(read_flight_recorders(path).has_value());

  constexpr std::streamoff next_at = 32;  // after magic, rank, size, epoch and entries
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::uint64_t most = UINT64_MAX;
  file.seekp(next_at).write(reinterpret_cast<const char*>(&most), sizeof(most));
  file.close();
  const auto logs = read_flight_recorders(path);
  REQUIRE(logs.has_value());
  CHECK(logs->front().records.empty());
}

TEST_CASE("flight recorder: counts completed operations even if the ring is full") {
  const Folder folder;
  auto recorder =
      FlightRecorder::open({.folder = folder.path, .name = "a", .rank = 1, .entries = 4});
  REQUIRE(recorder.has_value());
  const UniqueFd file(::open((*recorder)->path().c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file);
  const int fd = file.get();
  for (std::uint64_t seq = 1; seq <= 6; ++seq) {
    const auto ticket = (*recorder)->queued(sum(seq), steady_now());
    const auto before = read_flight_progress(fd);
    REQUIRE(before.size() == 1);
    CHECK(before[0].pid == ::getpid());
    CHECK(before[0].completed == seq - 1);
    (*recorder)->completed_at(ticket, steady_now());
    CHECK(read_flight_progress(fd)[0].completed == seq);
  }
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

TEST_CASE("flight recorder: the view of all ranks lists the rank furthest behind first") {
  CHECK(describe_flight_recorders(
            {log_of(0, 118, true), log_of(3, 118, false), log_of(1, 118, true)}) ==
        "rank 3 last completed all_reduce #118 sum f32[100]\n"
        "ranks 0, 1 last completed all_reduce #118 sum f32[100], waiting in all_reduce #119 sum "
        "f32[100]\n");
  CHECK(describe_flight_recorders({log_of(0, 5, false), log_of(1, 0, false)}) ==
        "rank 1 completed no operation\nrank 0 last completed all_reduce #5 sum f32[100]\n");
}

}  // namespace
}  // namespace muster::collective
