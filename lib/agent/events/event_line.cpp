// SPDX-License-Identifier: Apache-2.0
#include "agent/events/event_text.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "process/tree/sweeper.hpp"

#include <fmt/core.h>

#include <string_view>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

std::string names_of(const std::vector<channel::NodeRanks>& nodes) {
  return name_some(nodes, [](const channel::NodeRanks& node) { return node.node; });
}

// The line for a round whose nodes differ from the previous round's nodes.
EventLine continued_line(const event::RoundBegun& begun) {
  const Assignment& here = begun.assignment;
  std::string text = fmt::format("the job continues with {} and {}",
                                 counted(here.group_world_size, "node"),
                                 counted(here.world_size, "worker"));
  if (!begun.change.left.empty()) {
    text += "; lost: " + names_of(begun.change.left);
  }
  if (!begun.change.joined.empty()) {
    text += "; joined: " + names_of(begun.change.joined);
  }
  return {LogLevel::warning, std::move(text), true};
}

EventLine round_line(std::uint64_t number, const event::RoundBegun& begun) {
  const Assignment& here = begun.assignment;
  const std::string store = fmt::format("store on {}:{}", here.master_addr, here.master_port);
  if (!begun.shared) {
    return {LogLevel::info,
            fmt::format("attempt {}: {}, {}, files in '{}'",
                        here.attempt + 1,
                        counted(here.local_world_size, "worker"),
                        store,
                        begun.run_folder)};
  }
  if (!begun.change.left.empty() || !begun.change.joined.empty()) {
    return continued_line(begun);
  }
  return {LogLevel::info,
          fmt::format("round {}: group rank {} of {}, ranks {} to {} of {}, {}",
                      number,
                      here.group_rank,
                      here.group_world_size,
                      here.rank_first,
                      here.rank_first + here.local_world_size - 1,
                      here.world_size,
                      store)};
}

// Losing or gaining a node is a warning. The failure of a rank is not a warning, because the leader
// already warns of it. Nor is a planned departure, because the node that leaves prints its own
// message, and because all nodes leave when the whole job is stopped.
EventLine regroup_line(const event::RegroupAsked& asked) {
  const bool is_failure = asked.reason.starts_with("rank ");
  const bool is_planned = asked.reason.find("' leaves: ") != std::string::npos;
  return {is_failure || is_planned ? LogLevel::info : LogLevel::warning,
          asked.reason + "; stopping the workers for a new round"};
}

EventLine check_line(const event::NodesChecked& what) {
  const int nodes = what.verdict.nodes;
  const auto defects = static_cast<int>(what.verdict.findings.size()) + what.verdict.more_findings;
  return {LogLevel::info,
          fmt::format("checked {} in {:.1f} s: {}",
                      counted(nodes, "node"),
                      what.seconds,
                      defects == 0 ? "no defects" : counted(defects, "defect"))};
}

EventLine preemption_line(const event::PreemptionBegun& begun) {
  return {LogLevel::warning,
          fmt::format("preempted ({}): the ranks have {:.0f} s to save{} and exit{}",
                      begun.why,
                      begun.seconds,
                      begun.step ? fmt::format(" at step {}", *begun.step) : "",
                      begun.is_of_node ? "; then the other nodes continue" : "")};
}

EventLine end_line(const event::WorkerEnded& ended) {
  return {LogLevel::info,
          fmt::format("local rank {} (pid {}) {}{}",
                      ended.exit.local_rank,
                      ended.exit.pid,
                      describe_end(ended.exit),
                      ended.reaped || !ended.exit.lost_child.empty()
                          ? ""
                          : "; the kernel is freeing its memory")};
}

EventLine leftovers_line(const event::LeftoversFound& found) {
  using Fate = event::LeftoversFound::Fate;
  const std::string processes = describe_leftovers(found.processes);
  switch (found.fate) {
    case Fate::awaited:
      return {LogLevel::warning,
              fmt::format("all workers have exited; waiting up to {} for {}. Ctrl-C stops {}",
                          describe(found.time_left),
                          processes,
                          agreeing(found.processes.size(), "it", "them"))};
    case Fate::asked:
      return {LogLevel::warning, "sent SIGTERM to " + processes};
    case Fate::killed:
      break;
  }
  return {LogLevel::warning, "killed " + processes};
}

std::string hang_line(const event::HangFound& found) {
  const std::string line = "hang: " + hang::headline(found.verdict);
  return found.told_by.empty() ? line : line + "; see node '" + found.told_by + "' for details";
}

}  // namespace

std::optional<EventLine> line_of(const JobEvent& event) {
  return std::visit(
      [&]<class What>(const What& what) -> std::optional<EventLine> {
        if constexpr (std::is_same_v<What, event::RoundBegun>) {
          return round_line(event.round, what);
        } else if constexpr (std::is_same_v<What, event::WorkerEnded>) {
          return end_line(what);
        } else if constexpr (std::is_same_v<What, event::WorkerUnhealthy>) {
          return EventLine{
              LogLevel::warning,
              fmt::format("rank {} reports that it is unhealthy: {}", what.rank, what.why)};
        } else if constexpr (std::is_same_v<What, event::WorkerHealthy>) {
          return EventLine{LogLevel::info, fmt::format("rank {} is healthy again", what.rank)};
        } else if constexpr (std::is_same_v<What, event::RestartDecided>) {
          return EventLine{LogLevel::warning, what.text};
        } else if constexpr (std::is_same_v<What, event::Mended>) {
          return EventLine{
              LogLevel::info,
              fmt::format("all ranks work again {:.2f} s after the failure", what.seconds)};
        } else if constexpr (std::is_same_v<What, event::NodesChecked>) {
          return check_line(what);
        } else if constexpr (std::is_same_v<What, event::PreemptionBegun>) {
          return preemption_line(what);
        } else if constexpr (std::is_same_v<What, event::StepSaved>) {
          return EventLine{LogLevel::info,
                           fmt::format("rank {} has saved step {}", what.rank, what.step)};
        } else if constexpr (std::is_same_v<What, event::RegroupAsked>) {
          return regroup_line(what);
        } else if constexpr (std::is_same_v<What, event::NodeFenced>) {
          return EventLine{LogLevel::warning,
                           what.reason +
                               "; killed this node's workers because the other nodes may have "
                               "continued"};
        } else if constexpr (std::is_same_v<What, SuspectedNode>) {
          return EventLine{LogLevel::warning, what.text};
        } else if constexpr (std::is_same_v<What, event::LeftoversFound>) {
          return leftovers_line(what);
        } else if constexpr (std::is_same_v<What, event::HangFound>) {
          return EventLine{LogLevel::warning, hang_line(what)};
        } else if constexpr (std::is_same_v<What, event::HangOver>) {
          return EventLine{
              what.is_shown ? LogLevel::warning : LogLevel::info,
              fmt::format("workers are making progress again after {:.0f} s", what.quiet)};
        } else if constexpr (std::is_same_v<What, straggler::Named>) {
          return EventLine{LogLevel::warning, straggler::describe(what.slow)};
        } else if constexpr (std::is_same_v<What, straggler::Over>) {
          return EventLine{LogLevel::warning, straggler::describe(what)};
        } else if constexpr (std::is_same_v<What, event::Message>) {
          return EventLine{what.level, what.text};
        } else {
          return std::nullopt;
        }
      },
      event.what);
}

}  // namespace muster
