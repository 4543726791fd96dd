// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/failure_history.hpp"

#include "agent/failures/failure_patterns.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

namespace muster {
namespace {

constexpr std::string_view kStopText = "a restart will not help";

// The exit codes of BSD's sysexits.h, from 64.
constexpr int kSysexitsFirst = 64;
constexpr int kTryAgainLater = 75;
constexpr std::array<std::string_view, 15> kSysexits{"EX_USAGE: invalid command line",
                                                     "EX_DATAERR: invalid input data",
                                                     "EX_NOINPUT: cannot open an input file",
                                                     "EX_NOUSER: unknown user",
                                                     "EX_NOHOST: unknown host",
                                                     "EX_UNAVAILABLE: service unavailable",
                                                     "EX_SOFTWARE: internal error",
                                                     "EX_OSERR: system error",
                                                     "EX_OSFILE: missing system file",
                                                     "EX_CANTCREAT: cannot create an output file",
                                                     "EX_IOERR: input or output error",
                                                     "EX_TEMPFAIL: try again later",
                                                     "EX_PROTOCOL: protocol error",
                                                     "EX_NOPERM: permission denied",
                                                     "EX_CONFIG: invalid configuration"};

bool is_memory(Cause cause) {
  return cause == Cause::host_memory || cause == Cause::gpu_memory;
}

// Causes outside the program may go away, even if they have the same effect twice.
bool may_go_away(Cause cause) {
  return cause == Cause::lost_peer || cause == Cause::network || cause == Cause::preemption ||
         cause == Cause::hardware;
}

bool is_same_time(Duration left, Duration right) {
  const Duration longer = std::max(left, right);
  return longer - std::min(left, right) <= std::max(kSamePointTime, longer / 5);
}

std::string in_parentheses(const std::string& gist) {
  return gist.empty() ? std::string() : " (" + gist + ")";
}

std::string_view error_name(Cause cause) {
  switch (cause) {
    case Cause::import:
      return "an import error";
    case Cause::syntax:
      return "a syntax error";
    default:
      return "a usage error";
  }
}

std::string point_of(const Finding& finding) {
  if (finding.step) {
    return fmt::format("at step {}", *finding.step);
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(finding.run_time);
  return seconds < std::chrono::seconds(1) ? "within a second of its start"
                                           : fmt::format("after {}", describe(seconds));
}

// "rank 3 failed twice at step 120 with the same traceback (ValueError: bad batch)"
std::string describe_repeat(const Finding& finding, Cause cause) {
  const std::string point = point_of(finding);
  if (is_memory(cause)) {
    const std::string_view whose = cause == Cause::gpu_memory ? "GPU" : "host";
    return fmt::format("rank {} ran out of {} memory twice {}", finding.rank, whose, point);
  }
  if (finding.has_traceback) {
    return fmt::format("rank {} failed twice {} with the same traceback{}",
                       finding.rank,
                       point,
                       in_parentheses(finding.gist));
  }
  if (finding.status.signaled) {
    return fmt::format("rank {} was killed twice {} by {}{}",
                       finding.rank,
                       point,
                       signal_name(finding.status.value),
                       in_parentheses(finding.gist));
  }
  return fmt::format("rank {} failed twice {} with the same error{}",
                     finding.rank,
                     point,
                     in_parentheses(finding.gist));
}

Judgement stop(Cause cause, std::string_view facts) {
  return {Advice::stop, cause, false, fmt::format("{}: {}", kStopText, facts)};
}

}  // namespace

void FailureHistory::begin_round(int workers) {
  rounds_.emplace_back().workers = workers;
  if (rounds_.size() > kRoundsRemembered) {
    rounds_.pop_front();
  }
}

void FailureHistory::note(const WorkerFailure& failure) {
  if (rounds_.empty()) {
    begin_round(1);
  }
  auto& findings = rounds_.back().findings;
  const bool is_known = std::ranges::find(findings, failure.rank, &Finding::rank) != findings.end();
  if (!is_known && findings.size() < kFindingsPerRoundMax) {
    findings.push_back(finding_of(failure));
  }
}

void FailureHistory::note_kernel_log(const std::string& line) {
  if (rounds_.empty()) {
    begin_round(1);
  }
  Round& round = rounds_.back();
  if (round.hardware.empty()) {
    round.hardware = hardware_error(line);
  }
  round.memory_kill = round.memory_kill || is_memory_kill(line);
}

// The first failure that is not the consequence of another one. If there are only consequences,
// the first one.
const Finding* FailureHistory::root() const {
  if (rounds_.empty() || rounds_.back().findings.empty()) {
    return nullptr;
  }
  const auto& findings = rounds_.back().findings;
  const auto at = std::ranges::find_if(
      findings, [](const Finding& finding) { return !is_consequence(finding); });
  return at == findings.end() ? &findings.front() : &*at;
}

// A worker that the kernel killed prints nothing; the kernel log contains the reason.
Cause FailureHistory::cause_of(const Finding& finding, const Round& round) const {
  const bool killed = finding.status.shell_code() == 128 + SIGKILL;
  return killed && round.memory_kill ? Cause::host_memory : finding.cause;
}

Judgement FailureHistory::judge() const {
  const Finding* const first = root();
  if (first == nullptr) {
    return {};
  }
  if (const auto judged = judge_code(*first)) {
    return *judged;
  }
  const Round& round = rounds_.back();
  const Cause cause = cause_of(*first, round);
  const bool blames_node = !round.hardware.empty() && !is_startup_error(*first);
  if (cause == Cause::hardware || blames_node) {
    return {Advice::bad_node,
            Cause::hardware,
            false,
            fmt::format("this node may be faulty: rank {} failed{}",
                        first->rank,
                        blames_node ? ", and the kernel logged " + round.hardware
                                    : " with a hardware error" + in_parentheses(first->gist))};
  }
  if (const auto judged = judge_startup(*first)) {
    return *judged;
  }
  if (const auto judged = judge_repeat(*first)) {
    return *judged;
  }
  return {Advice::restart, cause, false, {}};
}

std::optional<Judgement> FailureHistory::judge_code(const Finding& root) const {
  const auto& findings = rounds_.back().findings;
  const auto named = std::ranges::find_if(findings, [this](const Finding& finding) {
    return !finding.after_stop && no_restart_on_.contains(finding.status.shell_code());
  });
  if (named != findings.end()) {
    return Judgement{Advice::stop,
                     Cause::exit_code,
                     true,
                     fmt::format("not restarted: rank {} exited with code {} (--no-restart-on)",
                                 named->rank,
                                 named->status.shell_code())};
  }
  const int code = root.status.value;
  const auto index = static_cast<std::size_t>(code - kSysexitsFirst);
  if (root.status.signaled || code < kSysexitsFirst || index >= kSysexits.size() ||
      root.cause == Cause::lost_peer) {
    return std::nullopt;
  }
  const std::string facts =
      fmt::format("rank {} exited with code {} ({})", root.rank, code, kSysexits[index]);
  if (code == kTryAgainLater) {
    return Judgement{
        Advice::requeue, Cause::exit_code, false, "start the job again later: " + facts};
  }
  return stop(Cause::exit_code, facts);
}

// One rank may fail because of the file system of its node. If all ranks fail, the error is in the
// program or in its arguments.
std::optional<Judgement> FailureHistory::judge_startup(const Finding& root) const {
  if (!is_startup_error(root)) {
    return std::nullopt;
  }
  const Round& round = rounds_.back();
  const auto same = std::ranges::count_if(round.findings, is_startup_error);
  if (same < round.workers) {
    return std::nullopt;
  }
  Duration longest{};
  for (const Finding& finding : round.findings) {
    longest = std::max(longest, finding.run_time);
  }
  const std::string who = round.workers == 1 ? fmt::format("rank {}", root.rank)
                                             : fmt::format("all {} ranks", round.workers);
  return stop(root.cause,
              fmt::format("{} failed within {} with {}{}",
                          who,
                          describe(longest),
                          error_name(root.cause),
                          in_parentheses(root.gist)));
}

std::optional<Judgement> FailureHistory::judge_repeat(const Finding& root) const {
  const Round& round = rounds_.back();
  for (const Finding& finding : round.findings) {
    // Ranks that fail in the same way as the first one did not fail because of it.
    const bool counts =
        &finding == &root || (!finding.similar.empty() && finding.similar == root.similar);
    if (counts && repeated(finding) != nullptr) {
      const Cause cause = cause_of(finding, round);
      return stop(cause, describe_repeat(finding, cause));
    }
  }
  return std::nullopt;
}

// The same failure of the same rank in an earlier round. Null if there is none, or if it may have
// another reason.
const Finding* FailureHistory::repeated(const Finding& now) const {
  const Cause cause = cause_of(now, rounds_.back());
  if (may_go_away(cause) || (is_silent_kill(now) && !is_memory(cause))) {
    return nullptr;
  }
  for (auto round = std::next(rounds_.rbegin()); round != rounds_.rend(); ++round) {
    for (const Finding& before : round->findings) {
      if (before.rank != now.rank || before.step != now.step || cause_of(before, *round) != cause ||
          before.status != now.status) {
        continue;
      }
      // Without steps, the run times show whether both failures happened at the same point. The
      // numbers in a message then tell one input from another.
      const bool is_same_text =
          now.step || is_memory(cause) ? before.similar == now.similar : before.exact == now.exact;
      const bool is_same_point = now.step || is_same_time(before.run_time, now.run_time);
      const bool has_facts = !now.exact.empty() || is_memory(cause) || now.status.signaled;
      if ((is_same_text || (is_memory(cause) && now.step)) && is_same_point && has_facts) {
        return &before;
      }
    }
  }
  return nullptr;
}

}  // namespace muster
