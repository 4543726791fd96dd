// SPDX-License-Identifier: Apache-2.0
#include "hang/report/verdict_text.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"
#include "hang/judge/collective_places.hpp"
#include "hang/judge/stack_places.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace muster::hang {
namespace {

constexpr std::size_t kStackLines = 4;
constexpr std::size_t kGapLines = 3;

std::string_view action_text(OnHang action) {
  switch (action) {
    case OnHang::report:
      return "taking no action (--on-hang=report)";
    case OnHang::restart:
      return "treating it as a failure (--on-hang=restart)";
    case OnHang::stop:
      return "stopping the job (--on-hang=stop)";
  }
  return "";
}

// For example " on 'a', 'b'". Empty for a single-node job.
std::string on_nodes(const std::vector<std::string>& nodes) {
  return nodes.empty()
             ? ""
             : " on " + name_some(nodes, [](const std::string& name) { return "'" + name + "'"; });
}

}  // namespace

std::vector<std::string> lines_of_group(const Group& group, std::size_t stack_lines) {
  std::string line =
      fmt::format("  {}{}: {}", name_ranks(group.ranks), on_nodes(group.nodes), group.reason);
  line += group.position.empty() ? "" : "; " + group.position;
  line += group.waits_for.empty() ? "" : "; awaiting " + name_ranks(group.waits_for);
  std::vector<std::string> out{std::move(line)};
  for (std::size_t i = 0; i < std::min(stack_lines, group.stack.size()); ++i) {
    out.push_back("      " + group.stack[i]);
  }
  return out;
}

std::string headline(const Verdict& verdict) {
  if (verdict.ranks.empty()) {
    return "cause unknown";
  }
  // These reasons are about all ranks, so they need no list of ranks.
  if (verdict.cause == Cause::all_wait || verdict.cause == Cause::waits_for_rank) {
    return verdict.reason;
  }
  return fmt::format(
      "{}{}: {}", name_ranks(verdict.ranks), on_nodes(verdict.nodes), verdict.reason);
}

std::vector<std::string> block_of(const Verdict& verdict, const VerdictFacts& facts) {
  std::vector<std::string> out{fmt::format("hang: {}", headline(verdict)),
                               fmt::format("  no progress for {:.0f} s ({}limit {:.0f} s); {}",
                                           facts.quiet,
                                           facts.automatic ? "automatic " : "",
                                           facts.limit,
                                           action_text(facts.action))};
  const std::size_t gaps = std::min(kGapLines, facts.gaps.size());
  // The lines after the groups: gaps, the number of further gaps, and the folder.
  const std::size_t last =
      gaps + (gaps < facts.gaps.size() ? 1 : 0) + (facts.folder.empty() ? 0 : 1);
  for (const Group& group : verdict.groups) {
    // One more line is reserved for "...".
    const std::size_t room = kBlockLinesMax - std::min(kBlockLinesMax, out.size() + last + 1);
    if (room == 0) {
      out.emplace_back("  ...");
      break;
    }
    std::ranges::move(lines_of_group(group, std::min(kStackLines, room - 1)),
                      std::back_inserter(out));
  }
  for (std::size_t i = 0; i < gaps; ++i) {
    out.push_back("  " + facts.gaps[i]);
  }
  if (gaps < facts.gaps.size()) {
    out.push_back("  and " + counted(facts.gaps.size() - gaps, "more gap") + " in the evidence");
  }
  if (!facts.folder.empty()) {
    out.push_back("  details: " + facts.folder);
  }
  return out;
}

std::string story_of(const RankEvidence& rank) {
  std::string out = fmt::format("rank {}{}, no progress for {:.1f} s\n",
                                rank.rank,
                                rank.ended ? " has exited" : "",
                                rank.quiet);
  const std::string position = describe_position(rank);
  out += position.empty() ? "" : position + "\n";
  for (const ProcessFacts& process : rank.processes) {
    out += fmt::format("process {} ({}), child of {}, state {}\n",
                       process.pid,
                       process.command,
                       process.parent,
                       process.state);
    for (const ThreadFacts& thread : process.threads) {
      const Wait& wait = thread.wait;
      out +=
          fmt::format("  thread {} ({}): state {}, cpu {:.0f} %, kernel function {}, call {} {}\n",
                      thread.tid,
                      thread.name,
                      thread.state,
                      thread.cpu * 100,
                      thread.kernel_function.empty() ? "-" : thread.kernel_function,
                      wait.call.empty() ? "-" : wait.call,
                      wait.path);
      for (const Stack& stack : process.stacks) {
        for (const Frame& frame : stack.tid == thread.tid ? stack.frames : std::vector<Frame>{}) {
          out += "      " + describe(frame) + "\n";
        }
      }
    }
  }
  return out;
}

}  // namespace muster::hang
