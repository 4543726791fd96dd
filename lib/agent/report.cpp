// SPDX-License-Identifier: Apache-2.0
#include "agent/report.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

constexpr std::string_view kTracebackStart = "Traceback (most recent call last):";
constexpr std::size_t kEvidenceLinesMax = 8;  // with the seven others: kReportLinesMax
constexpr std::size_t kStderrLinesBesideTracebackMax = 2;
constexpr std::size_t kNamesMax = 8;  // ranks or pids named before "and n more"

using Lines = std::vector<std::string>;

// One printable line of bounded length: workers print escape sequences and endless lines.
std::string printable(std::string_view line) {
  std::string out;
  for (const char c : line.substr(0, kReportLineBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t' || (byte >= 0x20 && byte != 0x7f)) {
      out += c;
    }
  }
  if (line.size() > kReportLineBytesMax) {
    // Not in the middle of a character.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) {
      out.pop_back();
    }
    if (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80) != 0) {
      out.pop_back();
    }
    out += "...";
  }
  return out;
}

// Without empty lines.
Lines lines_of(std::string_view text) {
  Lines lines;
  for (std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

// The last `count` lines; of a traceback also its first line, since it says that it is one.
Lines last_lines(const Lines& lines, std::size_t count) {
  if (lines.size() <= count) {
    return lines;
  }
  const bool is_traceback = lines.front().find(kTracebackStart) != std::string::npos;
  const std::size_t head = is_traceback && count > 3 ? 2 : 0;
  Lines out;
  if (head > 0) {
    out.push_back(lines.front());
    out.emplace_back("  ...");
  }
  out.insert(out.end(), lines.end() - static_cast<std::ptrdiff_t>(count - head), lines.end());
  return out;
}

// "0, 2, 3 and 5 more"
template <class Range, class Words>
std::string name_some(const Range& things, Words words) {
  std::string out;
  std::size_t count = 0;
  for (const auto& thing : things) {
    if (count < kNamesMax) {
      out += (count == 0 ? "" : ", ") + words(thing);
    }
    ++count;
  }
  if (count > kNamesMax) {
    out += fmt::format(" and {} more", count - kNamesMax);
  }
  return out;
}

// Python prints the recorded error to stderr too, there with the frames around the decorated
// function: the same traceback if it ends alike.
void leave_out_printed_traceback(Lines& said, const Lines& recorded) {
  const auto start = std::find_if(said.rbegin(), said.rend(), [](const std::string& line) {
    return line.find(kTracebackStart) != std::string::npos;
  });
  if (start == said.rend()) {
    return;
  }
  const auto first = std::prev(start.base());
  const auto last = std::find(first, said.end(), recorded.back());
  if (last != said.end()) {
    said.erase(first, std::next(last));
  }
}

// What stderr says besides the traceback, which is not empty.
Lines said_besides(const WorkerFailure& root, const Lines& traceback) {
  Lines said = lines_of(root.stderr_tail);
  leave_out_printed_traceback(said, traceback);
  std::erase_if(said, [&](const std::string& line) {
    return std::ranges::any_of(traceback,
                               [&](const std::string& known) { return trim(known) == trim(line); });
  });
  return said;
}

void add_evidence(Lines& out, const WorkerFailure& root) {
  Lines shown = lines_of(traceback_of(root));
  Lines besides;
  if (shown.empty()) {
    shown = lines_of(root.stderr_tail);
    if (root.record) {
      shown.push_back(root.record->message);
    }
  } else if (root.record) {
    besides = last_lines(said_besides(root, shown), kStderrLinesBesideTracebackMax);
  }
  shown = last_lines(shown, kEvidenceLinesMax - besides.size());
  shown.insert(shown.end(), besides.begin(), besides.end());
  for (const std::string& line : shown) {
    out.push_back("  | " + printable(line));
  }
}

void add_others(Lines& out, const JobResult& result, const WorkerFailure& root) {
  const auto others = other_failures(result);
  if (others.empty()) {
    return;
  }
  const std::string traceback = traceback_of(root);
  const auto same = std::ranges::count_if(others, [&](const WorkerFailure* other) {
    return !traceback.empty() && traceback_of(*other) == traceback;
  });
  std::string words = fmt::format(
      "  {} other rank{} failed after it: {}",
      others.size(),
      others.size() == 1 ? "" : "s",
      name_some(others, [](const WorkerFailure* other) { return fmt::format("{}", other->rank); }));
  if (same > 0) {
    words += fmt::format(" ({} with the same traceback)", same);
  }
  out.push_back(std::move(words));
}

void add_failure(Lines& out, const JobResult& result, const ReportSite& site) {
  const auto at = root_cause(result.failures, result.stop_signal);
  if (!at) {
    return;
  }
  const WorkerFailure& root = result.failures[*at];
  out.push_back(printable(
      fmt::format("muster: {}: rank {} {}", site.program, root.rank, describe_end(root))));
  std::string where = fmt::format("  node {}, local rank {}", site.node, root.local_rank);
  if (root.pid != 0) {
    where += fmt::format(", pid {}", root.pid);
  }
  if (result.attempt > 0) {
    where += fmt::format(", attempt {} of {}", root.attempt + 1, result.max_restarts + 1);
  }
  out.push_back(printable(where));
  if (!result.verdict.empty()) {
    out.push_back("  " + result.verdict);
  }
  add_evidence(out, root);
  add_others(out, result, root);
}

void add_leftovers(Lines& out, const JobResult& result, const ReportSite& site) {
  if (!result.overdue.empty()) {
    out.push_back(
        fmt::format("  killed after the grace period: local rank{} {}",
                    result.overdue.size() == 1 ? "" : "s",
                    name_some(result.overdue, [](int rank) { return fmt::format("{}", rank); })));
  }
  if (!result.survivors.empty()) {
    const std::string names = name_some(result.survivors, [](const Survivor& left) {
      const std::string state =
          left.state == '?' ? "not reaped" : fmt::format("state {}", left.state);
      return fmt::format("pid {} ({}, {})", left.pid, left.command, state);
    });
    out.push_back(printable((out.empty() ? "muster: warning: " : "  ") +
                            std::string("could not be killed: ") + names));
  }
  if (!out.empty() && !site.logs.empty()) {
    out.push_back(printable("  logs: " + site.logs));
  }
}

}  // namespace

std::string traceback_of(const WorkerFailure& failure) {
  if (failure.record && !failure.record->traceback.empty()) {
    return failure.record->traceback;
  }
  const auto start = failure.stderr_tail.rfind(kTracebackStart);
  return start == std::string::npos ? std::string() : failure.stderr_tail.substr(start);
}

std::vector<const WorkerFailure*> other_failures(const JobResult& result) {
  const auto root = root_cause(result.failures, result.stop_signal);
  std::vector<const WorkerFailure*> others;
  for (std::size_t i = 0; i < result.failures.size(); ++i) {
    if (i != root && !was_stopped_by_us(result.failures[i], result.stop_signal)) {
      others.push_back(&result.failures[i]);
    }
  }
  return others;
}

std::string describe_interruption(const JobResult& result) {
  std::string words = "interrupted by " + signal_name(result.interrupting_signal);
  if (result.interrupting_sender != 0) {
    words += fmt::format(" from pid {}", result.interrupting_sender);
  }
  return words;
}

std::string render_report(const JobResult& result, const ReportSite& site) {
  Lines lines;
  switch (result.outcome) {
    case Outcome::succeeded:
      break;
    case Outcome::failed:
      add_failure(lines, result, site);
      break;
    case Outcome::interrupted:
      lines.push_back("muster: " + describe_interruption(result));
      break;
    case Outcome::not_started:
      lines.push_back("muster: " + (result.error ? result.error->message : "not started"));
      break;
    case Outcome::orphaned:
      lines.emplace_back("muster: the guarding process died; all workers were killed");
      break;
  }
  add_leftovers(lines, result, site);
  if (lines.size() > kReportLinesMax) {
    lines.resize(kReportLinesMax);
  }
  if (site.colour && !lines.empty()) {
    lines.front() = "\x1b[1;31m" + lines.front() + "\x1b[0m";
  }
  return lines.empty() ? std::string() : join(lines, "\n") + "\n";
}

}  // namespace muster
