// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/judge.hpp"

#include "hang/report/verdict_text.hpp"
#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster::hang {
namespace {

constexpr double kQuiet = 30;

// A rank whose only thread waits like this, with one Python frame.
RankEvidence rank_in(int rank, WaitKind kind, const std::string& function, std::string path = "") {
  const pid_t pid = 100 + rank;
  RankEvidence out{.rank = rank, .local_rank = rank, .quiet = kQuiet};
  ThreadFacts thread{.tid = pid, .name = "python3", .state = 'S'};
  thread.wait.kind = kind;
  thread.wait.path = std::move(path);
  ProcessFacts process{.pid = pid, .parent = 1, .command = "python3", .state = 'S'};
  process.threads.push_back(thread);
  process.stacks.push_back({.tid = pid,
                            .name = "MainThread",
                            .python = true,
                            .frames = {{function, "/job/train.py", 7}}});
  out.processes.push_back(process);
  return out;
}

Operation operation(std::uint64_t number, std::string what) {
  return {.number = number, .what = std::move(what)};
}

// Places the rank in operation `what` with number `number`, after others; "": in no operation.
void place(RankEvidence& rank,
           std::uint64_t number,
           const std::string& what,
           std::vector<std::string> before = {}) {
  Position at{.group = "world", .rank = rank.rank, .size = 3, .entered = number - 1};
  std::uint64_t count = number - before.size();
  for (std::string& one : before) {
    at.recent.push_back(operation(count++, std::move(one)));
  }
  if (!what.empty()) {
    at.entered = number;
    at.pending.push_back(operation(number, what));
  }
  rank.positions.push_back(at);
}

RankEvidence waiting(int rank) {
  RankEvidence out = rank_in(rank, WaitKind::lock, "train");
  place(out, 119, "all_reduce sum f32[25]", {"barrier", "all_reduce sum f32[25]"});
  return out;
}

Evidence of(std::vector<RankEvidence> ranks) {
  Evidence out{.limit = 10};
  out.world_size = static_cast<int>(ranks.size());
  out.ranks = std::move(ranks);
  return out;
}

}  // namespace

TEST_CASE("the other ranks may be waiting for a rank without a known operation") {
  const Verdict verdict = judge(of({waiting(0), rank_in(1, WaitKind::sleep, "nap"), waiting(2)}));
  REQUIRE(verdict.cause == Cause::sleeps);
  REQUIRE(verdict.ranks == std::vector{1});
  REQUIRE(verdict.groups.at(1).waits_for == std::vector{1});
}

TEST_CASE("a rank sleeps if only its native stack shows it") {
  RankEvidence seen = rank_in(1, WaitKind::nothing, "nap");
  REQUIRE(judge(of({waiting(0), seen})).cause != Cause::sleeps);
  seen.processes[0].stacks.push_back(
      {.tid = 101, .name = "python3", .frames = {{"clock_nanosleep", "", 0}, {"nap", "", 0}}});
  const Verdict verdict = judge(of({waiting(0), seen}));
  CHECK(verdict.cause == Cause::sleeps);
  CHECK(verdict.ranks == std::vector{1});
}

// Two hundred threads that wait for an item of the user's own queues, as prefetchers do.
RankEvidence with_threads(RankEvidence rank) {
  constexpr int kThreads = 200;
  ProcessFacts& process = rank.processes[0];
  process.stacks[0].frames = {{"join", "/usr/lib/python3.11/threading.py", 1119},
                              {"train", "/job/train.py", 7}};
  for (int i = 1; i <= kThreads; ++i) {
    ThreadFacts thread{.tid = process.pid + 1000 + i, .name = "python3", .state = 'S'};
    thread.wait.kind = WaitKind::lock;
    process.threads.push_back(thread);
    process.stacks.push_back(
        {.tid = thread.tid,
         .name = "Thread-" + std::to_string(i),
         .python = true,
         .frames = {{"get", "/usr/lib/python3.11/queue.py", 171}, {"fetch", "/job/train.py", 9}}});
  }
  return rank;
}

TEST_CASE("visits each of many threads that wait for each other once") {
  RankEvidence rank = with_threads(rank_in(1, WaitKind::lock, "train"));
  const Verdict quiet = judge(of({waiting(0), rank}));
  CHECK(quiet.cause == Cause::waits_for_thread);
  CHECK(quiet.ranks == std::vector{1});
  rank.processes[0].threads.back().wait.kind = WaitKind::sleep;
  const Verdict found = judge(of({waiting(0), rank}));
  CHECK(found.cause == Cause::sleeps);
  CHECK(found.ranks == std::vector{1});
}

TEST_CASE("if some ranks' operations are unknown, compares only names") {
  const auto in_library = [](int rank, const std::string& operation, const std::string& caller) {
    RankEvidence out = rank_in(rank, WaitKind::lock, caller);
    out.processes[0].stacks[0].frames.insert(
        out.processes[0].stacks[0].frames.begin(),
        {operation, "/site-packages/torch/distributed/distributed_c10d.py", 9});
    return out;
  };
  RankEvidence known = in_library(0, "all_reduce", "train");
  place(known, 119, "all_reduce sum f32[25]");
  const Verdict same = judge(of({known, in_library(1, "all_reduce", "evaluate")}));
  CHECK(same.cause == Cause::all_wait);
  const Verdict other = judge(of({known, in_library(1, "broadcast", "train")}));
  CHECK(other.cause == Cause::different_collective);
}

TEST_CASE("a receiving rank is not in a different collective from ranks that wait for it") {
  const auto receiving = [](int rank, int peer) {
    RankEvidence out = rank_in(rank, WaitKind::lock, "train");
    out.positions.push_back({.group = "world", .rank = rank, .size = 3, .entered = 4});
    out.positions[0].pending.push_back({.number = 1, .what = "recv u8[64]", .peer = peer});
    return out;
  };
  RankEvidence other = rank_in(2, WaitKind::lock, "train");
  place(other, 5, "barrier");
  const Verdict verdict = judge(of({receiving(0, 1), receiving(1, 0), other}));
  CHECK(verdict.cause != Cause::different_collective);
}

TEST_CASE("a rank that was briefly awake in our library waits like the others") {
  RankEvidence sleeper = rank_in(1, WaitKind::sleep, "nap");
  place(sleeper, 119, "");
  RankEvidence awake = waiting(2);
  awake.processes[0].stacks.push_back(
      {.tid = 102,
       .frames = {{"syscall"}, {"void muster::rest<>()"}, {"muster_run"}, {"ffi_call"}}});
  const auto groups = [&] { return judge(of({waiting(0), sleeper, awake})).groups.size(); };
  CHECK(groups() == 2);
  awake.processes[0].stacks[1].frames.insert(awake.processes[0].stacks[1].frames.begin() + 3,
                                             {"optimize", "/job/native.cpp", 3});
  CHECK(groups() == 3);
}

TEST_CASE("blames the rank for which the others wait, with its own cause") {
  RankEvidence sleeper = rank_in(1, WaitKind::sleep, "nap");
  place(sleeper, 119, "");
  const Verdict verdict = judge(of({waiting(0), sleeper, waiting(2)}));
  REQUIRE(verdict.cause == Cause::sleeps);
  REQUIRE(verdict.ranks == std::vector{1});
  REQUIRE(verdict.reason == "sleeping in nap (train.py:7)");
  REQUIRE(verdict.groups.size() == 2);
  REQUIRE(verdict.groups[0].ranks == std::vector{1});
  REQUIRE(verdict.groups[1].ranks == std::vector{0, 2});
  REQUIRE(verdict.groups[1].waits_for == std::vector{1});
  REQUIRE(verdict.groups[1].position == "in #119 all_reduce sum f32[25] (0 s)");
}

TEST_CASE("a stopped process takes precedence, even inside an operation") {
  RankEvidence stopped = waiting(2);
  stopped.processes.front().state = 'T';
  const Verdict verdict = judge(of({waiting(0), waiting(1), stopped}));
  REQUIRE(verdict.cause == Cause::stopped);
  REQUIRE(verdict.ranks == std::vector{2});
}

TEST_CASE("follows a chain to its end") {
  RankEvidence reader = rank_in(1, WaitKind::file_lock, "save", "/shared/lock");
  reader.processes.front().threads.front().wait.holder = 100;
  place(reader, 119, "");
  RankEvidence holder = rank_in(0, WaitKind::sleep, "hold");
  place(holder, 119, "");
  const Verdict verdict = judge(of({holder, reader, waiting(2)}));
  REQUIRE(verdict.cause == Cause::sleeps);
  REQUIRE(verdict.ranks == std::vector{0});
}

TEST_CASE("a rank that blocks others only by its lock has skipped no operation") {
  const RankEvidence holder = rank_in(0, WaitKind::socket, "download", "socket:[7]");
  RankEvidence other = rank_in(1, WaitKind::file_lock, "save", "/shared/lock");
  other.processes.front().threads.front().wait.holder = 100;
  const Verdict verdict = judge(of({holder, other}));
  CHECK(verdict.cause == Cause::waits_for_socket);
  CHECK(verdict.ranks == std::vector{0});
  CHECK(verdict.groups.at(1).waits_for == std::vector{0});
}

TEST_CASE("operations that differ: shows both sides, blames the smaller one") {
  RankEvidence other = rank_in(1, WaitKind::lock, "train");
  place(other, 119, "broadcast f32[1] root 0", {"barrier"});
  const Verdict verdict = judge(of({waiting(0), other, waiting(2)}));
  REQUIRE(verdict.cause == Cause::different_collective);
  REQUIRE(verdict.ranks == std::vector{1});
  REQUIRE(verdict.reason ==
          "different collective: its operation #119 is broadcast f32[1] root 0, "
          "but ranks 0, 2 call all_reduce sum f32[25]");
}

TEST_CASE("recognizes a skipped operation if the others call it next") {
  const std::vector<std::string> history{"a", "b", "c", "a", "b", "c"};
  RankEvidence one = rank_in(0, WaitKind::lock, "train");
  RankEvidence two = rank_in(2, WaitKind::lock, "train");
  RankEvidence odd = rank_in(1, WaitKind::lock, "train");
  place(one, 7, "a", history);
  place(two, 7, "a", history);
  place(odd, 7, "b", history);
  const Verdict verdict = judge(of({one, odd, two}));
  REQUIRE(verdict.cause == Cause::skipped_collective);
  REQUIRE(verdict.ranks == std::vector{1});
}

TEST_CASE("ranks that wait for an exited rank blame it") {
  RankEvidence ended{.rank = 1, .local_rank = 1, .ended = true};
  place(ended, 119, "");
  const Verdict verdict = judge(of({waiting(0), ended, waiting(2)}));
  REQUIRE(verdict.cause == Cause::skipped_collective);
  REQUIRE(verdict.ranks == std::vector{1});
}

TEST_CASE("a rank that makes progress is not blamed for one that hangs on its own") {
  RankEvidence busy = rank_in(0, WaitKind::nothing, "compute");
  busy.quiet = 0;
  busy.processes.front().threads.front().runs = true;
  const Verdict verdict = judge(of({busy, rank_in(1, WaitKind::sleep, "nap")}));
  REQUIRE(verdict.ranks == std::vector{1});
}

TEST_CASE("a rank that makes progress is not blamed for a state observed by chance") {
  RankEvidence resting = rank_in(0, WaitKind::sleep, "rest");
  resting.quiet = 0;
  CHECK(judge(of({resting, rank_in(1, WaitKind::sleep, "nap")})).ranks == std::vector{1});
  resting.quiet = kQuiet;
  CHECK(judge(of({resting, rank_in(1, WaitKind::sleep, "nap")})).ranks == std::vector{0, 1});
}

TEST_CASE("ranks may wait for ranks on other nodes") {
  Evidence evidence = of({waiting(0), waiting(1)});
  evidence.world_size = 4;
  const Verdict verdict = judge(evidence);
  REQUIRE(verdict.cause == Cause::waits_for_rank);
}

TEST_CASE("if all ranks are in one operation, none of them is the cause") {
  const Verdict verdict = judge(of({waiting(0), waiting(1), waiting(2)}));
  REQUIRE(verdict.cause == Cause::all_wait);
}

TEST_CASE("a job without any evidence gets a verdict, too") {
  const Verdict verdict = judge(of({RankEvidence{.rank = 0, .quiet = kQuiet}}));
  REQUIRE(verdict.cause == Cause::unknown);
  REQUIRE(block_of(verdict, {}).size() <= kBlockLinesMax);
}

TEST_CASE("the block has at most twenty lines") {
  std::vector<RankEvidence> ranks;
  for (int rank = 0; rank < 64; ++rank) {
    ranks.push_back(rank_in(rank, WaitKind::sleep, "f" + std::to_string(rank)));
  }
  const Evidence evidence = of(std::move(ranks));
  const Verdict verdict = judge(evidence);
  const VerdictFacts facts{.quiet = 30, .limit = 10, .gaps = {"a", "b"}, .folder = "/logs"};
  REQUIRE(verdict.groups.size() == 64);
  REQUIRE(block_of(verdict, facts).size() == kBlockLinesMax);
  const VerdictFacts blind{.gaps = std::vector<std::string>(64, "a"), .folder = "/logs"};
  REQUIRE(block_of(verdict, blind).size() == kBlockLinesMax);
  REQUIRE(json_of(verdict, facts).find("\"cause\": \"sleeps\"") != std::string::npos);
}

}  // namespace muster::hang
