// SPDX-License-Identifier: Apache-2.0
#include "status/fold.hpp"

#include "status/failure_event.hpp"
#include "status/fold_account.hpp"
#include "status/json.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace muster {
namespace {

// Applies one event to the status. `json` includes the envelope.
using Step = void (*)(JobStatus&, const Json&);

double time_of(const Json& json) {
  return seconds_of(json, "time");
}

std::uint64_t round_of(const Json& json) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(json, "round")));
}

void enter(JobStatus& status, JobPhase phase, const Json& json) {
  if (status.phase != phase) {
    status.phase = phase;
    status.phase_since = time_of(json);
    status.hang.reset();
    status.straggler.reset();
  }
}

// If a worker exited while its round was ending, the status only shows that it was stopped.
void close_round(JobStatus& status, const Json& json, const std::string& why) {
  if (status.rounds.empty()) {
    return;
  }
  RoundStatus& round = status.rounds.back();
  if (round.ended == 0) {
    round.ended = time_of(json);
  }
  if (round.why_ended.empty()) {
    round.why_ended = why;
  }
}

// The first rank that fails is the cause, until an event names another one.
void note_failed(JobStatus& status, int rank, bool is_certain) {
  if (!status.rounds.empty() && rank >= 0) {
    int& failed = status.rounds.back().failed_rank;
    failed = is_certain || failed < 0 ? rank : failed;
  }
}

void begin_stopping(JobStatus& status, const Json& json, const std::string& why) {
  if (!status.stopping_since && !status.rounds.empty()) {
    status.stopping_since = time_of(json);
  }
  enter(status, JobPhase::stopping, json);
  close_round(status, json, why);
}

void note_regroup_time(JobStatus& status, double seconds) {
  const auto at = std::ranges::lower_bound(kRegroupBounds, seconds);
  ++status.regroup_times.counts.at(static_cast<std::size_t>(at - kRegroupBounds.begin()));
  status.regroup_times.sum += seconds;
}

void forget_oldest_rounds(JobStatus& status) {
  std::size_t entries = 0;
  std::size_t kept = 0;
  for (auto round = status.rounds.rbegin(); round != status.rounds.rend(); ++round, ++kept) {
    entries += round->nodes.size() + round->workers.size() + 1;
    if (kept > 0 && (entries > kRoundEntriesMax || kept >= kRoundsKeptMax)) {
      break;
    }
  }
  status.rounds.erase(status.rounds.begin(), status.rounds.end() - static_cast<long>(kept));
}

std::vector<NodeStatus> nodes_of(const Json& json, const JobStatus& status) {
  std::vector<NodeStatus> out;
  int rank = 0;
  for (const Json& node : field(json, "nodes")) {
    const int workers = std::max(0, small_of(node, "workers"));
    if (out.size() < kRoundEntriesMax) {
      out.push_back({text_of(node, "name"), text_of(node, "address"), rank, workers});
    }
    rank = std::min(rank + workers, 1 << 24);
  }
  if (out.empty()) {  // single-node
    out.push_back({status.node, "", small_of(json, "rank_first"), small_of(json, "workers")});
  }
  return out;
}

void fold_job_started(JobStatus& status, const Json& json) {
  status.job = text_of(json, "job");
  status.scheduler_job = text_of(json, "scheduler_job");
  status.program = text_of(json, "program");
  status.version = text_of(json, "version");
  status.node = text_of(json, "node");
  status.launcher_pid = number_of(json, "launcher_pid");
  status.workers_here = small_of(json, "workers");
  status.max_restarts = small_of(json, "max_restarts");
  status.started = time_of(json);
  status.phase_since = time_of(json);
}

void fold_http_opened(JobStatus& status, const Json& json) {
  const std::string address = text_of(json, "address");
  const bool v6 = address.find(':') != std::string::npos;
  status.http =
      (v6 ? "[" + address + "]" : address) + ":" + std::to_string(number_of(json, "port"));
}

void fold_round_awaited(JobStatus& status, const Json& json) {
  // This event is emitted when the workers are asked to stop; they are still running at that time.
  if (status.phase != JobPhase::stopping) {
    enter(status, JobPhase::waiting, json);
  }
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> out;
  for (const Json& text : field(json, name)) {
    if (text.is_string()) {
      out.push_back(text.get<std::string>());
    }
  }
  return out;
}

void fold_roll_call(JobStatus& status, const Json& json) {
  RollCallStatus call;
  call.present = number_of(json, "present");
  call.needed = number_of(json, "needed");
  call.nodes = texts_of(json, "nodes");
  call.awaited = texts_of(json, "awaited");
  call.refused = texts_of(json, "refused");
  call.trouble = text_of(json, "trouble");
  status.roll_call = std::move(call);
  enter(status, JobPhase::waiting, json);
}

void fold_round_begun(JobStatus& status, const Json& json) {
  const double now = time_of(json);
  close_round(status, json, "");
  if (status.stopping_since) {
    note_regroup_time(status, std::max(0.0, now - *status.stopping_since));
    status.stopping_since.reset();
  }
  RoundStatus round;
  round.number = round_of(json);
  round.restarts = small_of(json, "restarts");
  round.begun = now;
  round.world_size = small_of(json, "world_size");
  round.group_rank = small_of(json, "group_rank");
  round.nodes = nodes_of(json, status);
  status.nodes_lost += texts_of(json, "left").size();
  status.nodes_joined += texts_of(json, "joined").size();
  status.logs = text_of(json, "logs");
  status.workers_here = small_of(json, "workers");
  status.restarts =
      std::max(status.restarts, static_cast<std::uint64_t>(std::max(0, round.restarts)));
  status.rounds.push_back(std::move(round));
  ++status.rounds_count;
  status.roll_call.reset();
  enter(status, JobPhase::starting, json);
  forget_oldest_rounds(status);
}

WorkerStatus* find_worker(JobStatus& status, int local_rank) {
  if (status.rounds.empty()) {
    return nullptr;
  }
  for (WorkerStatus& worker : status.rounds.back().workers) {
    if (worker.local_rank == local_rank) {
      return &worker;
    }
  }
  return nullptr;
}

// A worker was replaced (--restart=rank): its round continues.
void reopen_round(JobStatus& status, const Json& json) {
  status.rounds.back().ended = 0;
  status.rounds.back().why_ended.clear();
  status.stopping_since.reset();
  enter(status, JobPhase::starting, json);
}

void fold_worker_started(JobStatus& status, const Json& json) {
  const int local_rank = small_of(json, "local_rank");
  if (status.rounds.empty()) {
    return;
  }
  std::vector<WorkerStatus>& workers = status.rounds.back().workers;
  const WorkerStatus* const before = find_worker(status, local_rank);
  if (before != nullptr && before->state == WorkerState::running) {
    return;
  }
  const bool is_replacement = before != nullptr;
  if (is_replacement) {
    reopen_round(status, json);
    workers.erase(workers.begin() + (before - workers.data()));
  }
  if (workers.size() >= kRoundEntriesMax) {
    return;
  }
  WorkerStatus worker;
  worker.rank = small_of(json, "rank");
  worker.local_rank = local_rank;
  worker.pid = number_of(json, "pid");
  worker.started = time_of(json);
  workers.push_back(std::move(worker));
  if (!is_replacement && status.phase == JobPhase::starting &&
      std::cmp_equal(workers.size(), status.workers_here)) {
    enter(status, JobPhase::running, json);
  }
}

void fold_worker_dying(JobStatus& status, const Json& json) {
  if (WorkerStatus* worker = find_worker(status, small_of(json, "local_rank"))) {
    worker->state = WorkerState::dying;
    worker->end = text_of(json, "end");
    if (number_of(json, "exit_code") != 0) {
      note_failed(status, worker->rank, false);
    }
  }
}

void fold_worker_unhealthy(JobStatus& status, const Json& json) {
  if (WorkerStatus* worker = find_worker(status, small_of(json, "local_rank"))) {
    worker->unhealthy = text_of(json, "why");
  }
}

void fold_worker_healthy(JobStatus& status, const Json& json) {
  if (WorkerStatus* worker = find_worker(status, small_of(json, "local_rank"))) {
    worker->unhealthy.clear();
  }
}

void fold_worker_ended(JobStatus& status, const Json& json) {
  WorkerStatus* worker = find_worker(status, small_of(json, "local_rank"));
  if (worker == nullptr) {
    return;
  }
  const bool well = number_of(json, "exit_code") == 0 && field(json, "signal").is_null();
  // The first failing worker ends the round; workers that fail later had been asked to stop.
  const bool by_itself = status.phase != JobPhase::stopping || worker->state == WorkerState::dying;
  worker->state = well        ? WorkerState::succeeded
                  : by_itself ? WorkerState::failed
                              : WorkerState::stopped;
  worker->unhealthy.clear();
  worker->ended = time_of(json);
  worker->end = text_of(json, "end");
  if (!well) {
    if (by_itself) {
      note_failed(status, worker->rank, false);
    }
    begin_stopping(
        status, json, "rank " + std::to_string(worker->rank) + " " + text_of(json, "end"));
  }
}

void keep_failure(JobStatus& status, FailureStatus failure) {
  status.failures.push_back(std::move(failure));
  if (status.failures.size() > kFailuresKeptMax) {
    status.failures.erase(status.failures.begin());
  }
}

void fold_worker_failed(JobStatus& status, const Json& json) {
  FailureStatus failure = failure_of(json, seconds_of(json, "unix_time"), text_of(json, "node"));
  failure.round = round_of(json);
  ++status.failures_by_cause[failure.cause];
  if (WorkerStatus* worker = find_worker(status, small_of(json, "local_rank"))) {
    worker->state = WorkerState::failed;
  }
  keep_failure(status, std::move(failure));
}

void fold_restart(JobStatus& status, const Json& json) {
  ++status.restarts;
  note_failed(status, small_of(json, "rank"), true);
  begin_stopping(status, json, text_of(json, "text"));
}

void fold_mended(JobStatus& status, const Json& json) {
  enter(status, JobPhase::running, json);
}

void fold_regroup(JobStatus& status, const Json& json) {
  ++status.regroups;
  if (number_of(json, "gone") > 0) {
    note_failed(status, small_of(json, "gone_first"), true);
  }
  begin_stopping(status, json, text_of(json, "reason"));
}

void fold_fenced(JobStatus& status, const Json& json) {
  ++status.fences;
  begin_stopping(status, json, text_of(json, "reason"));
}

void fold_signal(JobStatus& status, const Json& json) {
  if (!status.rounds.empty() && status.rounds.back().ended == 0) {
    status.rounds.back().why_ended = "the launcher received " + text_of(json, "signal");
  }
}

// Handles a signal that stops the workers. Job control signals are ignored.
void fold_workers_signalled(JobStatus& status, const Json& json) {
  const std::string signal = text_of(json, "signal");
  if (signal != "SIGTSTP" && signal != "SIGSTOP" && signal != "SIGCONT") {
    begin_stopping(status, json, "");
  }
}

std::vector<int> ranks_of(const Json& json) {
  std::vector<int> out;
  for (const Json& rank : field(json, "ranks")) {
    if (rank.is_number_integer() && out.size() < kRoundEntriesMax) {
      out.push_back(small(rank.get<std::int64_t>()));
    }
  }
  return out;
}

void fold_hang(JobStatus& status, const Json& json) {
  constexpr std::string_view kMark = "hang: ";
  HangStatus hang;
  hang.time = time_of(json);
  hang.ranks = ranks_of(json);
  hang.cause = text_of(json, "cause");
  const std::vector<std::string> lines = texts_of(json, "text");
  hang.text = lines.empty() ? text_of(json, "reason") : lines.front();
  if (hang.text.starts_with(kMark)) {
    hang.text.erase(0, kMark.size());
  }
  status.hang = std::move(hang);
  ++status.hangs;
}

void fold_hang_over(JobStatus& status, const Json& /*json*/) {
  status.hang.reset();
}

void fold_straggler(JobStatus& status, const Json& json) {
  StragglerStatus straggler;
  straggler.time = time_of(json);
  straggler.ranks = ranks_of(json);
  for (const Json& place : field(json, "places")) {
    if (straggler.nodes.size() < kRoundEntriesMax) {
      straggler.nodes.push_back(text_of(place, "node"));
    }
  }
  straggler.share = std::clamp(seconds_of(json, "share"), 0.0, 1.0);
  straggler.text = text_of(json, "text");
  status.straggler = std::move(straggler);
}

void fold_straggler_over(JobStatus& status, const Json& /*json*/) {
  status.straggler.reset();
}

// Without the fields of the envelope that do not describe the check.
void fold_check(JobStatus& status, const Json& json) {
  constexpr std::size_t kCheckBytesMax = std::size_t{256} * 1024;
  Json check = json;
  for (const char* name : {"v", "event", "node"}) {
    check.erase(name);
  }
  std::string text = dump_json(check);
  status.check = text.size() <= kCheckBytesMax ? std::move(text) : std::string();
}

void fold_part_done(JobStatus& status, const Json& json) {
  close_round(status, json, "all workers on this node succeeded");
  status.stopping_since.reset();
  enter(status, JobPhase::finished, json);
}

void fold_message(JobStatus& status, const Json& json) {
  const std::string level = text_of(json, "level");
  if (level == "warning" || level == "error") {
    ++status.warnings;
  }
}

// In a multi-node job, the failure that ended the job may have occurred on another node.
void fold_root_cause(JobStatus& status, const Json& json) {
  const Json& root = field(json, "root_cause");
  if (!root.is_object() || text_of(root, "node") == status.node) {
    return;
  }
  FailureStatus failure = failure_of(root, time_of(json), text_of(root, "node"));
  failure.round = round_of(json);
  keep_failure(status, std::move(failure));
}

void fold_job_ended(JobStatus& status, const Json& json) {
  status.outcome = text_of(json, "outcome");
  status.exit_code = number_of(json, "exit_code");
  status.verdict = text_of(json, "verdict");
  if (const std::string why = text_of(json, "interruption"); !why.empty()) {
    status.verdict = why;
  } else if (const std::string error = text_of(json, "error"); !error.empty()) {
    status.verdict = error;
  }
  close_round(status, json, status.outcome == "succeeded" ? "the job succeeded" : status.verdict);
  status.stopping_since.reset();
  const Json& root = field(json, "root_cause");
  const Json& rank = field(root.is_object() ? root : json, root.is_object() ? "rank" : "root_rank");
  if (rank.is_number_integer()) {
    note_failed(status, small(rank.get<std::int64_t>()), true);
  }
  fold_root_cause(status, json);
  enter(status, JobPhase::ended, json);
}

struct Row {
  std::string_view event;
  Step step;
};

constexpr std::array<Row, 25> kSteps{{{"job_started", fold_job_started},
                                      {"http_opened", fold_http_opened},
                                      {"round_awaited", fold_round_awaited},
                                      {"roll_call", fold_roll_call},
                                      {"round_begun", fold_round_begun},
                                      {"worker_started", fold_worker_started},
                                      {"worker_unhealthy", fold_worker_unhealthy},
                                      {"worker_healthy", fold_worker_healthy},
                                      {"worker_dying", fold_worker_dying},
                                      {"worker_ended", fold_worker_ended},
                                      {"worker_failed", fold_worker_failed},
                                      {"restart", fold_restart},
                                      {"mended", fold_mended},
                                      {"regroup", fold_regroup},
                                      {"fenced", fold_fenced},
                                      {"signal", fold_signal},
                                      {"workers_signalled", fold_workers_signalled},
                                      {"hang", fold_hang},
                                      {"hang_over", fold_hang_over},
                                      {"straggler", fold_straggler},
                                      {"straggler_over", fold_straggler_over},
                                      {"check", fold_check},
                                      {"part_done", fold_part_done},
                                      {"message", fold_message},
                                      {"job_ended", fold_job_ended}}};

}  // namespace

std::string_view describe(JobPhase phase) {
  switch (phase) {
    case JobPhase::waiting:
      return "waiting";
    case JobPhase::starting:
      return "starting";
    case JobPhase::running:
      return "running";
    case JobPhase::stopping:
      return "stopping";
    case JobPhase::finished:
      return "finished";
    case JobPhase::ended:
      return "ended";
  }
  return "";
}

std::vector<std::string> node_labels(const RoundStatus& round) {
  std::map<std::string, int> seen;
  std::vector<std::string> out;
  for (const NodeStatus& node : round.nodes) {
    const int count = ++seen[node.name];
    out.push_back(count == 1 ? node.name : node.name + " (" + std::to_string(count) + ")");
  }
  return out;
}

bool fold_event(JobStatus& status, std::string_view line) {
  const Json json = parse_json(line);
  const Json& name = field(json, "event");
  if (!name.is_string()) {
    return false;
  }
  status.changed = time_of(json);
  const auto row = std::ranges::find(kSteps, name.get_ref<const std::string&>(), &Row::event);
  if (row != kSteps.end()) {
    row->step(status, json);
  }
  account_event(status, name.get_ref<const std::string&>(), json);
  return true;
}

}  // namespace muster
