// SPDX-License-Identifier: Apache-2.0
// Evidence from hanging programs is parsed or skipped, within the limits: stack dumps, lines from
// /proc, memory, and dumps of flight recorders. Whatever was parsed is judged and printed.
#include "base/check.hpp"
#include "hang/gather/proc_wait.hpp"
#include "hang/gather/stack_dumps.hpp"
#include "hang/gather/torch_dump.hpp"
#include "hang/judge/judge.hpp"
#include "hang/judge/positions.hpp"
#include "hang/report/verdict_text.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace muster;
using namespace muster::hang;

constexpr pid_t kPid = 700;

std::vector<Stack> stacks_in(std::string_view bytes) {
  std::vector<Stack> out = parse_py_spy(bytes);
  std::ranges::move(parse_eu_stack(bytes), std::back_inserter(out));
  MUSTER_CHECK(out.size() <= 2 * kThreadsMax);
  for (const Stack& stack : out) {
    MUSTER_CHECK(stack.tid >= 0 && stack.frames.size() <= kFramesMax);
  }
  return out;
}

std::vector<Position> positions_in(std::string_view bytes) {
  static const int kMemory = ::memfd_create("fuzz", MFD_CLOEXEC);
  MUSTER_CHECK(::ftruncate(kMemory, 0) == 0);
  MUSTER_CHECK(::pwrite(kMemory, bytes.data(), bytes.size(), 0) ==
               static_cast<ssize_t>(bytes.size()));
  static_cast<void>(collective::read_flight_progress(kMemory));
  static_cast<void>(collective::read_flight_waits(kMemory));
  std::vector<Position> out;
  const auto logs = collective::read_flight_recorders("/proc/self/fd/" + std::to_string(kMemory));
  if (logs) {
    for (auto& [pid, position] : positions_of(*logs, 1)) {
      MUSTER_CHECK(position.recent.size() <= kRecentMax);
      MUSTER_CHECK(position.pending.size() <= kPendingMax);
      out.push_back(std::move(position));
    }
  }
  return out;
}

std::vector<Position> torch_positions_in(std::string_view bytes, int rank) {
  auto out = torch_positions(bytes, {.rank = rank, .backend = "", .now = 2});
  if (!out) {
    return {};
  }
  MUSTER_CHECK(out->size() <= kTorchGroupsMax);
  for (const Position& position : *out) {
    MUSTER_CHECK(position.recent.size() <= kRecentMax && position.pending.size() <= kPendingMax);
  }
  return *out;
}

ThreadFacts thread_in(std::string_view line) {
  ThreadFacts out{.tid = kPid, .name = std::string(line.substr(0, 16)), .state = 'S'};
  if (const auto call = parse_system_call(line)) {
    const CallFacts facts = facts_of(*call);
    out.wait = {.kind = facts.kind, .call = std::string(facts.name), .path = {}, .fd = facts.fd};
  }
  out.wait.holder = lock_holder(line, kPid);
  MUSTER_CHECK(out.wait.holder >= 0);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Evidence evidence{.limit = 1, .world_size = 2};
  for (int rank = 0; rank < 2; ++rank) {
    RankEvidence one{.rank = rank, .local_rank = rank, .quiet = 2};
    ProcessFacts process{.pid = kPid, .parent = 1, .command = "python3", .state = 'S'};
    process.threads.push_back(thread_in(bytes));
    process.stacks = stacks_in(bytes);
    for (Stack& stack : process.stacks) {
      stack.tid = rank == 0 ? kPid : stack.tid;
    }
    one.positions = positions_in(bytes.substr(rank == 0 ? 0 : size / 2));
    std::ranges::move(torch_positions_in(bytes, rank), std::back_inserter(one.positions));
    one.processes.push_back(std::move(process));
    evidence.ranks.push_back(std::move(one));
  }
  const Verdict verdict = judge(evidence);
  MUSTER_CHECK(!name_of(verdict.cause).empty());
  MUSTER_CHECK(block_of(verdict, {}).size() <= kBlockLinesMax);
  MUSTER_CHECK(!json_of(verdict, {}).empty());
  MUSTER_CHECK(!json_of(evidence).empty());
  MUSTER_CHECK(!story_of(evidence.ranks.front()).empty());
  return 0;
}
