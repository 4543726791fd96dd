// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/report.hpp"

#include "agent/failures/error_file.hpp"
#include "agent/failures/failure_hint.hpp"
#include "agent/failures/lost_connection.hpp"
#include "agent/failures/traceback.hpp"
#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kEvidenceLinesMax = 8;  // kReportLinesMax minus seven other lines
constexpr std::size_t kStderrLinesBesideTracebackMax = 2;

// Summaries of other failures replace evidence lines. Summaries of ranks that only lost the
// connection to the root cause use only spare evidence lines.
constexpr std::size_t kEarlyGistsMax = 2;

constexpr std::size_t kErrorBytesMax = 2000;  // the text may come from another node

using Lines = std::vector<std::string>;

// Python also prints the recorded error to stderr, with the frames around the decorated function.
// The two tracebacks are the same if their last lines are the same.
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

// PyTorch's error handler fails if it cannot write the error file. Its own exception then follows
// the exception that it should have recorded.
std::string_view without_handler_error(std::string_view text) {
  constexpr std::string_view kChained =
      "\nDuring handling of the above exception, another exception occurred:\n";
  const auto chained = text.rfind(kChained);
  const bool of_handler = chained != std::string_view::npos &&
                          text.find(", in record_exception\n", chained) != std::string_view::npos;
  return of_handler ? text.substr(0, chained) : text;
}

// The lines on stderr that are not part of the traceback. The traceback must not be empty.
Lines said_besides(const WorkerFailure& root, const Lines& traceback) {
  Lines said = lines_with_text(root.stderr_tail);
  leave_out_printed_traceback(said, traceback);
  std::erase_if(said, [&](const std::string& line) {
    return std::ranges::any_of(traceback,
                               [&](const std::string& known) { return trim(known) == trim(line); });
  });
  return said;
}

// A one-line summary of a failure: its exception, or the last line of its stderr.
std::string gist_of(const WorkerFailure& failure) {
  Lines lines = lines_with_text(traceback_of(failure));
  if (lines.empty()) {
    lines = lines_with_text(failure.record ? failure.record->message : failure.stderr_tail);
  }
  return lines.empty() ? std::string() : std::string(trim(lines.back()));
}

// Returns the number of unused lines.
std::size_t add_evidence(Lines& out, const WorkerFailure& root, std::size_t lines_max) {
  Lines shown = lines_with_text(traceback_of(root));
  Lines besides;
  if (shown.empty()) {
    shown = lines_with_text(root.stderr_tail);
    if (root.record) {
      shown.push_back(root.record->message);
    }
  } else if (root.record) {
    besides = shorten(said_besides(root, shown), kStderrLinesBesideTracebackMax);
  }
  shown = shorten(shown, lines_max - besides.size());
  shown.insert(shown.end(), besides.begin(), besides.end());
  for (const std::string& line : shown) {
    out.push_back("  | " + printable(line));
  }
  return lines_max - shown.size();
}

void add_others(Lines& out, const FailureStory& story, std::size_t lines_left) {
  const std::size_t count = story.others.size() + story.others_unnamed;
  if (count == 0) {
    return;
  }
  std::string line =
      fmt::format("  {} failed after it: {}",
                  counted(count, "other rank"),
                  name_some(
                      story.others,
                      [](const OtherFailure& other) { return fmt::format("{}", other.rank); },
                      story.others_unnamed));
  if (story.same_traceback > 0) {
    line += fmt::format(" ({} with the same traceback)", story.same_traceback);
  }
  out.push_back(std::move(line));
  Lines gists = story.early_gists;
  const auto spare = std::min(lines_left, story.spare_gists.size());
  gists.insert(gists.end(),
               story.spare_gists.begin(),
               story.spare_gists.begin() + static_cast<std::ptrdiff_t>(spare));
  for (const std::string& gist : gists) {
    out.push_back("  | " + printable(gist));
  }
}

// Why the job does not restart, and whether a restart can help. A judgement that ends the job is
// the only reason.
Lines reasons_of(const FailureStory& story) {
  const std::string judgement = story.root.judgement ? story.root.judgement->text : std::string();
  Lines reasons{story.root.no_restart ? std::string() : story.verdict, judgement};
  std::erase(reasons, std::string());
  return reasons;
}

void add_failure(Lines& out, const FailureStory& story) {
  const WorkerFailure& root = story.root;
  out.push_back(
      printable(fmt::format("muster: {}: rank {} {}", story.program, root.rank, story.end)));
  std::string where = "  node " + story.node;
  if (story.has_details) {
    where += fmt::format(", local rank {}", root.local_rank);
  }
  if (root.pid != 0) {
    where += fmt::format(", pid {}", root.pid);
  }
  if (story.attempt > 1) {
    where += fmt::format(", attempt {} of {}", story.attempt, story.attempts);
  }
  out.push_back(printable(where));
  const Lines reasons = reasons_of(story);
  for (const std::string& reason : reasons) {
    out.push_back("  " + printable(reason));
  }
  const std::string hint = hint_for(root);
  const auto lines_max = kEvidenceLinesMax - story.early_gists.size() - (hint.empty() ? 0 : 1) -
                         (reasons.size() > 1 ? 1 : 0);
  const auto lines_left = add_evidence(out, root, lines_max);
  if (!hint.empty()) {
    out.push_back("  hint: " + hint);
  }
  add_others(out, story, lines_left);
}

Lines leftovers_of(const JobResult& result) {
  Lines out;
  if (!result.overdue.empty()) {
    out.push_back("killed after the grace period: local " + name_ranks(result.overdue));
  }
  if (!result.survivors.empty()) {
    const std::string names = name_some(result.survivors, [](const Survivor& left) {
      const std::string state =
          left.state == '?' ? "not reaped" : fmt::format("state {}", left.state);
      return fmt::format("pid {} ({}, {})", left.pid, left.command, state);
    });
    out.push_back("could not be killed: " + names);
  }
  return out;
}

// These lines are appended to the report. If there is no report, or if all nodes print the same
// report, these lines are printed first, as separate warnings.
void add_leftovers(Lines& out, const JobResult& result) {
  const bool alone = out.empty() || result.close;
  Lines own;
  for (const std::string& leftover : leftovers_of(result)) {
    own.push_back(printable((alone ? "muster: warning: " : "  ") + leftover));
  }
  out.insert(alone ? out.begin() : out.end(), own.begin(), own.end());
}

// In a multi-node job, the report comes entirely from the message that ended the job.
FailureStory told_story(const Close& close, const JobResult& result, const ReportSite& site) {
  auto parsed = parse_story(close.details);
  FailureStory story = parsed.value_or(FailureStory{});
  story.has_details = parsed.has_value();
  if (!parsed) {
    story.program = site.program;
    story.root.status = ExitStatus{false, close.exit_code};
  }
  story.root.rank = close.root_rank;
  story.node = close.root_node;
  story.end = close.root_text;
  story.verdict = close.reason;
  story.attempts = result.max_restarts + 1;
  story.others = close.others;
  const auto count = static_cast<std::size_t>(std::max(close.others_count, 0));
  story.others_unnamed = count - std::min(count, close.others.size());
  return story;
}

// Shows no output of ranks that exited after the stop request, except for ranks that lost their
// connection, because only timing decides whether such a rank exits before or after the request.
FailureStory own_story(const WorkerFailure& root, const JobResult& result, const ReportSite& site) {
  FailureStory story;
  story.program = site.program;
  story.node = site.node;
  story.end = describe_end(root);
  story.root = root;
  story.attempt = result.attempt > 0 ? root.attempt + 1 : 1;
  story.attempts = result.max_restarts + 1;
  story.verdict = result.verdict;
  const std::string traceback = traceback_of(root);
  for (const WorkerFailure* other : other_failures(result)) {
    story.others.push_back(OtherFailure{other->rank, site.node, describe_end(*other)});
    const bool same = !traceback.empty() && traceback_of(*other) == traceback;
    story.same_traceback += same ? 1U : 0U;
    const bool lost = other->after_stop ? is_lost_connection(*other) : other->lost_connection;
    const bool is_silent = same || (other->after_stop && !lost);
    const std::string gist = is_silent ? std::string() : gist_of(*other);
    if (!gist.empty() && story.early_gists.size() + story.spare_gists.size() < kEarlyGistsMax) {
      const bool only_lost_root = lost && (other->after_stop || !root.lost_connection);
      (only_lost_root ? story.spare_gists : story.early_gists)
          .push_back(fmt::format("rank {}: {}", other->rank, gist));
    }
  }
  story.logs = site.logs;
  return story;
}

void add_logs(Lines& out,
              const FailureStory* story,
              const JobResult& result,
              const ReportSite& site) {
  if (result.close && story != nullptr && !story->logs.empty()) {
    out.push_back(printable("  logs on node " + story->node + ": " + story->logs));
  } else if (!result.close && !out.empty() && !site.logs.empty()) {
    out.push_back(printable("  logs: " + site.logs));
  }
}

}  // namespace

std::string traceback_of(const WorkerFailure& failure) {
  if (failure.record && !failure.record->traceback.empty()) {
    return failure.record->traceback;
  }
  return last_chain(without_handler_error(failure.stderr_tail));
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
  std::string line = "interrupted by " + signal_name(result.interrupting_signal);
  if (result.interrupting_sender != 0) {
    line += fmt::format(" from pid {}", result.interrupting_sender);
  }
  return line;
}

std::string describe_preemption(const JobResult& result) {
  const Preemption& notice = result.preemption.value();
  std::map<std::uint64_t, std::vector<int>> ranks;  // by the step that they saved
  for (const auto& [rank, step] : notice.saved) {
    ranks[step].push_back(rank);
  }
  const bool all = std::cmp_equal(notice.saved.size(), result.nproc) && ranks.size() == 1;
  const std::string here = notice.workers_elsewhere > 0 ? " on this node" : "";
  Lines parts;
  for (const auto& [step, savers] : ranks) {
    parts.push_back(
        fmt::format("{} saved step {}", all ? "all ranks" + here : name_ranks(savers), step));
  }
  return fmt::format(
      "preempted ({}): {}",
      notice.why,
      parts.empty() ? "no rank" + here + " reported a saved step" : join(parts, ", "));
}

std::optional<FailureStory> story_of(const JobResult& result, const ReportSite& site) {
  if (result.close) {
    return result.close->succeeded ? std::nullopt
                                   : std::optional(told_story(*result.close, result, site));
  }
  const auto at = root_cause(result.failures, result.stop_signal);
  return at ? std::optional(own_story(result.failures[*at], result, site)) : std::nullopt;
}

std::string render_report(const JobResult& result, const ReportSite& site) {
  Lines lines;
  std::optional<FailureStory> story;
  if (is_preempted(result)) {
    lines.push_back("muster: " + printable(describe_preemption(result), kErrorBytesMax));
  }
  switch (result.outcome) {
    case Outcome::succeeded:
      break;
    case Outcome::failed:
      story = story_of(result, site);
      if (story) {
        add_failure(lines, *story);
      }
      break;
    case Outcome::interrupted:
      if (result.interrupting_signal != 0) {
        lines.push_back("muster: " + describe_interruption(result));
      }
      break;
    case Outcome::not_started:
    case Outcome::replaced:
      lines.push_back("muster: " + (result.error ? printable(result.error->message, kErrorBytesMax)
                                                 : "not started"));
      break;
    case Outcome::orphaned:
      lines.emplace_back("muster: the launcher was killed; its workers were killed too");
      break;
  }
  add_leftovers(lines, result);
  add_logs(lines, story ? &*story : nullptr, result, site);
  if (lines.size() > kReportLinesMax) {
    lines.resize(kReportLinesMax);
  }
  if (site.colour && !lines.empty()) {
    lines.front() = "\x1b[1;31m" + lines.front() + "\x1b[0m";
  }
  return lines.empty() ? std::string() : join(lines, "\n") + "\n";
}

}  // namespace muster
