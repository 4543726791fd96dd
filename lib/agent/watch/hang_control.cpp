// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/hang_control.hpp"

#include "agent/rounds/shared_rounds.hpp"
#include "agent/workers/files.hpp"
#include "plan/process_specs.hpp"
#include "process/run/linux_runner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

namespace muster {

namespace {

hang::HangWatchSettings settings_of(const AgentSetup& setup, SharedRounds* others) {
  hang::HangWatchSettings out;
  out.core.limit = setup.config.hang_timeout;
  out.core.on_hang = setup.config.on_hang;
  out.core.sees_output = sees_all_output(setup.config);
  out.environment = setup.environ.to_block();
  if (others != nullptr) {
    out.ask_others = [others] { others->tell(InquireHere{}); };
  }
  out.py_spy = py_spy_of(setup);
  return out;
}

}  // namespace

// A virtual environment need not be active, so the py-spy next to its Python is used.
std::string py_spy_of(const AgentSetup& setup) {
  const std::filesystem::path beside =
      std::filesystem::path(setup.config.program.python).parent_path() / "py-spy";
  std::error_code error;
  return beside.has_parent_path() && std::filesystem::exists(beside, error) ? beside.string()
                                                                            : "py-spy";
}

HangControl::HangControl(asio::io_context& loop, const AgentSetup& setup, HangControlParts parts)
    : setup_(setup),
      parts_(parts),
      watch_(loop, parts.runner, settings_of(setup, parts.others), *this) {}

// -- running workers --------------------------------------------------------------------------

void HangControl::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    begin_round(*begun);
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    blamed_.erase(started->local_rank);  // its predecessor may have been replaced for a hang
    killed_ = killed_ == started->local_rank ? -1 : killed_;
    watch_.worker_started({started->rank, started->local_rank, started->pid});
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    worker_ended(*ended);
  } else if (std::holds_alternative<event::Mended>(event.what)) {
    failing_ = false;
    watch_.resume();
  } else if (const auto* signalled = std::get_if<event::WorkersSignalled>(&event.what)) {
    workers_signalled(signalled->signo);
  } else if (std::holds_alternative<event::WorkersKilled>(event.what)) {
    workers_signalled(SIGKILL);
  }
}

void HangControl::begin_round(const event::RoundBegun& begun) {
  watch_.expect(static_cast<std::size_t>(begun.assignment.local_world_size),
                begun.assignment.world_size);
  blamed_.clear();
  killed_ = -1;
  stopping_ = failing_ = false;
  ends_job_ = false;
  attempt_ = begun.assignment.attempt;
  logs_ = begun.logs;
}

void HangControl::worker_ended(const event::WorkerEnded& ended) {
  if (!ended.exit.status.success()) {
    failing_ = true;
    watch_.end();
    return;
  }
  watch_.worker_ended(ended.exit.local_rank);
}

// A job that a user stopped with Ctrl-Z, which reaches workers as SIGSTOP, does not count as
// hanging. A job that is being stopped is not inspected.
void HangControl::workers_signalled(int signo) {
  if (signo == SIGCONT && !stopping_ && !failing_) {
    watch_.resume();
    return;
  }
  stopping_ = stopping_ || (signo != SIGSTOP && signo != SIGCONT);
  watch_.end();
}

// -- verdicts ---------------------------------------------------------------------------------

void HangControl::found(hang::HangReport report) {
  const hang::Verdict& verdict = report.verdict;
  for (const hang::WatchedWorker& worker : watch_.workers()) {
    if (std::ranges::find(verdict.ranks, worker.rank) != verdict.ranks.end()) {
      blamed_[worker.local_rank] = "hang: " + hang::headline(verdict);
    }
  }
  ends_job_ = report.facts.action == OnHang::stop;
  block_is_here_ = report.told_by.empty();
  ++found_;
  write_files(report);
  parts_.events.tell(event::HangFound{verdict, report.facts, report.told_by});
  if (report.kills) {
    fail_worker(*report.kills, verdict);
  }
}

void HangControl::write_files(hang::HangReport& report) {
  if (logs_.empty()) {
    return;
  }
  const std::string folder = fmt::format("{}/hang/{}", logs_, found_);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  report.facts.folder = folder;
  auto written = write_file(folder + "/verdict.json", hang::json_of(report.verdict, report.facts));
  if (written) {
    written = write_file(folder + "/evidence.json", hang::json_of(report.evidence));
  }
  for (const hang::RankEvidence& rank : report.evidence.ranks) {
    if (written) {
      written = write_file(fmt::format("{}/rank{}.txt", folder, rank.rank), hang::story_of(rank));
    }
  }
  if (!written) {
    report.facts.folder.clear();
    report.facts.gaps.push_back("cannot save the evidence: " + written.error().message);
  }
}

// The kernel may take a long time to kill a process that hangs in a system call, so the worker
// counts as failed immediately.
void HangControl::fail_worker(int rank, const hang::Verdict& verdict) {
  const auto& workers = watch_.workers();
  auto worker = std::ranges::find_if(workers, [&](const hang::WatchedWorker& one) {
    return !one.ended && (rank < 0 || one.rank == rank);
  });
  if (worker == workers.end()) {  // it has exited, so choose a live worker instead
    worker = std::ranges::find(workers, false, &hang::WatchedWorker::ended);
  }
  if (worker == workers.end()) {
    return;
  }
  const hang::WatchedWorker one = *worker;
  killed_ = one.local_rank;
  blamed_[killed_] = "hang: " + hang::headline(verdict);
  parts_.runner.kill_worker(one.local_rank);
  WorkerExit exit;
  exit.local_rank = one.local_rank;
  exit.pid = one.pid;
  exit.status = ExitStatus::from_wait(CLD_KILLED, SIGKILL);
  parts_.supervisor.on_worker_killed(exit);
}

void HangControl::add_evidence(WorkerFailure& failure) const {
  const auto found = blamed_.find(failure.local_rank);
  if (found == blamed_.end() || failure.attempt != attempt_) {
    return;
  }
  failure.hung = failure.local_rank == killed_;
  failure.ends_job = failure.hung && ends_job_;
  if (!failure.record) {
    failure.record = ErrorRecord{.message = found->second, .traceback = {}, .unix_seconds = {}};
  }
}

// -- other results of the watch ---------------------------------------------------------------

void HangControl::goes_on(Duration quiet) {
  blamed_.clear();
  parts_.events.tell(event::HangOver{std::chrono::duration<double>(quiet).count(), block_is_here_});
}

// Often only the first rank prints anything. In that case only its node can detect the program's
// progress.
void HangControl::sees_nothing() {
  if (parts_.others != nullptr && !watch_.workers().empty() && watch_.workers().front().rank != 0) {
    return;
  }
  parts_.events.say(
      LogLevel::warning,
      "--hang-timeout cannot see this program's progress (no progress() calls, no muster "
      "collectives, no output through muster): hangs will not be detected. Use --label or --tee");
}

std::vector<std::optional<std::uint64_t>> HangControl::steps() {
  return parts_.channel.steps();
}

std::set<int> HangControl::debugged() {
  return parts_.debuggers.ranks(steps());
}

}  // namespace muster
