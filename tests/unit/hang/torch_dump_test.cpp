// SPDX-License-Identifier: Apache-2.0
// Uses the dumps in tests/fixtures/flights, which explains how they were created.
#include "hang/gather/torch_dump.hpp"

#include "hang/gather/pickle.hpp"
#include "hang/judge/judge.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace muster::hang {
namespace {

using std::string_literals::operator""s;

std::string dump_of(const std::string& name) {
  std::ifstream file(std::string(MUSTER_FIXTURES) + "/flights/" + name + ".pickle",
                     std::ios::binary);
  std::string out{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE(!out.empty());
  return out;
}

std::vector<Position> positions(const std::string& name, int rank, std::string backend) {
  const auto out =
      torch_positions(dump_of(name), {.rank = rank, .backend = std::move(backend), .now = 0});
  REQUIRE(out);
  return *out;
}

const Position& in_group(const std::vector<Position>& positions, const std::string& group) {
  const auto found = std::ranges::find(positions, group, &Position::group);
  REQUIRE(found != positions.end());
  return *found;
}

std::vector<std::string> texts(const std::vector<Operation>& operations) {
  std::vector<std::string> out;
  for (const Operation& one : operations) {
    out.push_back(std::to_string(one.number) + " " + one.what +
                  (one.peer < 0 ? "" : " peer " + std::to_string(one.peer)));
  }
  return out;
}

// A thread that waits in an operation, represented by one stack with this function.
RankEvidence rank_in(int rank, const std::string& function, std::vector<Position> positions) {
  const pid_t pid = 100 + rank;
  RankEvidence out{.rank = rank, .local_rank = rank, .quiet = 30};
  ProcessFacts process{.pid = pid, .parent = 1, .command = "python3", .state = 'S'};
  process.threads.push_back({.tid = pid, .name = "python3", .state = 'S'});
  process.stacks.push_back(
      {.tid = pid,
       .python = true,
       .frames = {{function, "/site-packages/torch/distributed/distributed_c10d.py", 9},
                  {"train", "/job/train.py", 7}}});
  out.processes.push_back(process);
  out.positions = std::move(positions);
  return out;
}

std::string refused(const std::string& bytes) {
  const auto out = torch_positions(bytes, {.rank = 0, .backend = "nccl", .now = 0});
  REQUIRE(!out);
  return out.error().message;
}

// A dump with this version and one entry with this key.
std::string dump_with(const std::string& version, const std::string& key) {
  const auto text = [](const std::string& word) {
    return "X" + std::string(1, static_cast<char>(word.size())) + "\0\0\0"s + word;
  };
  return "\x80\x02}(" + text("version") + text(version) + text("entries") + "](}(" + text(key) +
         "K\x01ueu.";
}

}  // namespace

TEST_CASE("converts a dump of gloo's recorder to positions") {
  const auto found = positions("gloo-1", 1, "gloo");
  REQUIRE(found.size() == 1);
  const Position& at = found[0];
  REQUIRE(at.group == "default_pg (gloo)");
  REQUIRE(at.rank == 1);
  REQUIRE(at.entered == 10);
  REQUIRE(texts(at.recent) == std::vector<std::string>{"1 barrier",
                                                       "2 all_reduce f32[25]",
                                                       "3 broadcast f32[25]",
                                                       "4 barrier",
                                                       "5 all_reduce f32[25]",
                                                       "6 broadcast f32[25]",
                                                       "7 barrier",
                                                       "8 all_reduce f32[25]",
                                                       "9 broadcast f32[25]"});
  REQUIRE(texts(at.pending) == std::vector<std::string>{"10 all_reduce f32[25]"});
}

TEST_CASE("finds an operation that one rank skipped in PyTorch's records") {
  Evidence evidence{.limit = 10, .world_size = 3};
  for (int rank = 0; rank < 3; ++rank) {
    // According to their stacks alone, all are in the same operation.
    evidence.ranks.push_back(
        rank_in(rank, "wait", positions("gloo-" + std::to_string(rank), rank, "gloo")));
  }
  const Verdict verdict = judge(evidence);
  CHECK(verdict.cause == Cause::skipped_collective);
  CHECK(verdict.ranks == std::vector{1});
  CHECK(
      verdict.reason ==
      "skipped a collective: its operation #10 is all_reduce f32[25], but ranks 0, 2 call barrier, "
      "which comes before it");
}

TEST_CASE("groups, transfers and batches as recorded by PyTorch's hook") {
  const auto found = positions("hook", 2, "nccl");
  REQUIRE(found.size() == 2);
  const Position& all = in_group(found, "default_pg (nccl)");
  CHECK(all.rank == 2);
  CHECK(all.size == 4);
  CHECK(all.entered == 2);
  CHECK(texts(all.recent) == std::vector<std::string>{"1 all_reduce f32[2]",
                                                      "1 send f32[2] peer 1",
                                                      "2 send f32[2] peer 1",
                                                      "3 recv peer 3",
                                                      "2 all_to_all_single"});
  CHECK(all.pending.empty());
  const Position& part = in_group(found, "group tensor_parallel 1 (nccl) of 0,2");
  CHECK(part.rank == 1);
  CHECK(part.size == 2);
  CHECK(texts(part.recent) == std::vector<std::string>{"1 broadcast f32[2]"});
}

TEST_CASE("NCCL: a batch is one operation, and its last entry has the result") {
  const auto found = positions("nccl-0", 0, "nccl");
  const Position& at = in_group(found, "default_pg (nccl)");
  CHECK(at.entered == 4);
  CHECK(texts(at.recent) == std::vector<std::string>{"1 all_reduce bf16[1024,4]",
                                                     "2 _broadcast_oop bf16[8] and 1 more",
                                                     "1 send bf16[1024,4] peer 1"});
  CHECK(texts(at.pending) ==
        std::vector<std::string>{"3 all_gather bf16[1024,4]", "4 reduce_scatter bf16[1024,4]"});
  // No operation was called there yet, and other ranks may wait for it.
  CHECK(in_group(found, "group 7 (nccl) of 0,1").entered == 0);
}

TEST_CASE("NCCL: finds the rank that has not called an operation for which another waits") {
  Evidence evidence{.limit = 10, .world_size = 2};
  evidence.ranks.push_back(rank_in(0, "wait", positions("nccl-0", 0, "nccl")));
  RankEvidence sleeper = rank_in(1, "nap", positions("nccl-1", 1, "nccl"));
  sleeper.processes[0].threads[0].wait.kind = WaitKind::sleep;
  evidence.ranks.push_back(sleeper);
  const Verdict verdict = judge(evidence);
  CHECK(verdict.cause == Cause::sleeps);
  CHECK(verdict.ranks == std::vector{1});
  REQUIRE(verdict.groups.size() == 2);
  CHECK(verdict.groups[1].waits_for == std::vector{1});
}

TEST_CASE("a thread that runs in CUDA's synchronization waits if an operation is pending") {
  Evidence evidence{.limit = 10, .world_size = 2};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = "nccl-" + std::to_string(rank);
    RankEvidence one = rank_in(rank, "train", positions(name, rank, "nccl"));
    ProcessFacts& process = one.processes[0];
    process.threads[0].state = 'R';
    process.threads[0].runs = true;
    process.stacks = {{.tid = process.pid, .frames = {{"cudaStreamSynchronize", "", 0}}}};
    evidence.ranks.push_back(one);
  }
  const Verdict verdict = judge(evidence);
  CHECK(verdict.cause == Cause::all_wait);
  REQUIRE(!verdict.groups.empty());
  CHECK(verdict.groups[0].reason == "waiting for the GPU in cudaStreamSynchronize");
}

TEST_CASE("an operation's age counts from its call") {
  const auto found = torch_positions(
      dump_of("nccl-0"),
      {.rank = 0, .backend = "nccl", .now = 1'700'000'000'000'000'006 + 120'000'000'000});
  REQUIRE(found);
  CHECK(in_group(*found, "default_pg (nccl)").pending[0].age == 120'000'000'000);
}

TEST_CASE("dumps in other formats are refused with the reason") {
  CHECK(refused(dump_with("3.0", "collective_seq_id")) ==
        "unsupported format 3.0; only 2.x is supported");
  CHECK(refused(dump_with("2.1", "seq_id")) ==
        "its entries have no collective_seq_id (an early 2.x format)");
  CHECK(torch_positions(dump_with("2.99", "collective_seq_id"),
                        {.rank = 0, .backend = "nccl", .now = 0}));
  CHECK(refused("\x80\x02}.") == "it has no version field");
  CHECK(refused("") == "unexpected data at byte 0");
  const std::string whole = dump_of("nccl-0");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    CHECK(!torch_positions(whole.substr(0, size), {.rank = 0, .backend = "nccl", .now = 0}));
  }
}

TEST_CASE("a pickle that would execute code is refused") {
  CHECK(
      !Pickle::read("\x80\x02"
                    "cos\nsystem\nX\x02\0\0\0id\x85R."s));
  CHECK(!Pickle::read("\x80\x04}."));       // another protocol
  CHECK(!Pickle::read("\x80\x02h\x01."s));  // a memo entry that was never stored
  CHECK(!Pickle::read("\x80\x02(]."));      // an unmatched mark
  CHECK(!Pickle::read("\x80\x02]K\x01s."s));
}

TEST_CASE("parses numbers in a pickle") {
  const std::string bytes =
      "\x80\x02](K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\x01\xfe"
      "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"
      "G\x3f\xf8\x00\x00\x00\x00\x00\x00\x88"
      "Ne."s;
  const auto read = Pickle::read(bytes);
  REQUIRE(read);
  const auto at = [&](std::size_t i) { return read->at(read->root().items.at(i)); };
  CHECK(at(0).integer == 255);
  CHECK(at(1).integer == 65535);
  CHECK(at(2).integer == -2);
  CHECK(at(3).integer == -2);
  CHECK(at(4).integer == 0x4000000000000000);
  CHECK(at(5).real == 1.5);
  CHECK(at(6).integer == 1);
  CHECK(at(7).kind == PickleValue::Kind::none);
}

}  // namespace muster::hang
