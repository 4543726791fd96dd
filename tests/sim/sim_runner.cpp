// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_runner.hpp"

#include "base/check.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster::sim {
namespace {

constexpr Duration kHelperNeeds = std::chrono::milliseconds(150);  // in seeds without overload
constexpr Duration kManagerNeeds = std::chrono::seconds(2);

}  // namespace

SimRunner::SimRunner(Scheduler& scheduler,
                     Random& random,
                     ProcessObserver& observer,
                     ScriptOf script_of,
                     SpareFaults spare_faults)
    : scheduler_(scheduler),
      random_(random),
      observer_(observer),
      script_of_(std::move(script_of)),
      spare_faults_(spare_faults),
      spare_random_(spare_faults.seed) {}

Duration SimRunner::soon() {
  return std::chrono::microseconds(random_.between(1, 2000));
}

pid_t SimRunner::add(Process process) {
  const pid_t pid = next_pid_++;
  processes_.emplace(pid, std::move(process));
  return pid;
}

Result<pid_t> SimRunner::spawn(const ProcessSpec& spec) {
  const WorkerScript script = script_of_(spec);
  if (script.spawn_error) {
    return std::unexpected(*script.spawn_error);
  }
  groups_reported_ = false;
  workers_gone_.reset();
  frees_slowly_ = frees_slowly_ || script.freeing > Duration::zero();
  const auto spare = spec.replacement > 0 ? take_spare() : std::nullopt;
  const pid_t leader = spare ? *spare : add(Process{});
  Process& process = processes_.at(leader);
  process.local_rank = spec.local_rank;
  process.script = script;
  add_family(leader, script);
  if (script.run_for) {
    scheduler_.after(*script.run_for, [this, leader, end = script.end] { die(leader, end); });
  }
  return leader;
}

// -- spare workers ------------------------------------------------------------------------------

void SimRunner::keep_spares(int count) {
  pool_.keep(count);
  fill_spares_later();
}

void SimRunner::fill_spares_later() {
  scheduler_.after(std::chrono::milliseconds(spare_random_.between(1, 1000)), [this] {
    while (pool_.missing() > 0) {
      start_spare();
    }
  });
}

void SimRunner::start_spare() {
  Process spare;
  spare.spare = true;
  const pid_t pid = add(std::move(spare));
  pool_.add(pid);
  if (!spare_random_.chance(10)) {  // the others never reach elastic.run
    scheduler_.after(std::chrono::milliseconds(spare_random_.between(1, 200)),
                     [this, pid] { pool_.note_ready(pid); });
  }
  if (spare_random_.chance(spare_faults_.exiting_percent)) {
    scheduler_.after(std::chrono::milliseconds(spare_random_.between(1, 400)), [this, pid] {
      if (const auto at = processes_.find(pid); at != processes_.end() && at->second.spare) {
        die(pid, ExitStatus{false, 1});
      }
    });
  }
}

// The connection to a dead process is closed.
std::optional<pid_t> SimRunner::take_spare() {
  while (const auto pid = pool_.take()) {
    Process& process = processes_.at(*pid);
    MUSTER_CHECK(process.spare && !process.reaped);  // otherwise it is used twice
    if (!process.dead) {
      MUSTER_MARK("a spare worker replaces a failed worker");
      process.spare = false;
      return pid;
    }
  }
  return std::nullopt;
}

void SimRunner::note_spare_exit(pid_t pid) {
  const SparePool::Exit exit = pool_.note_exit(pid);
  if (exit == SparePool::Exit::replace) {
    fill_spares_later();
  } else if (exit == SparePool::Exit::give_up) {
    MUSTER_MARK("too many spare workers have exited");
  }
}

void SimRunner::stop_spares() {
  for (const pid_t pid : pool_.stop()) {
    scheduler_.after(soon(), [this, pid] { die(pid, ExitStatus{true, SIGKILL}); });
  }
}

// -- the workers' processes ---------------------------------------------------------------------

void SimRunner::add_family(pid_t leader, const WorkerScript& script) {
  WorkerScript below = script;
  below.unkillable = false;
  below.freeing = {};
  for (int i = 0; i < script.group_children; ++i) {
    add(Process{leader, -1, below});
  }
  for (int i = 0; i < script.daemons; ++i) {
    const pid_t daemon = add(Process{0, -1, below});
    if (script.daemon_runs_for) {
      scheduler_.after(*script.daemon_runs_for, [this, daemon] { die(daemon, {}); });
    }
  }
  below.ignores_term = false;
  if (script.shm_manager) {
    processes_.at(add(Process{0, -1, below})).manager = true;
  }
  below.ignores_term = true;
  for (int i = 0; i < script.helpers; ++i) {
    processes_.at(add(Process{leader, -1, below})).helper = true;
  }
}

void SimRunner::note_hurried(const Process& process) {
  const bool early = workers_gone_ && scheduler_.now() < *workers_gone_ + kManagerNeeds;
  if (process.manager && early && !frees_slowly_) {
    ++managers_hurried_;
  }
}

void SimRunner::ask_to_stop(pid_t pid, int signo) {
  Process& process = processes_.at(pid);
  if (process.dead || process.stopping || process.script.ignores_term || signo == SIGCONT) {
    return;
  }
  note_hurried(process);
  process.stopping = true;
  ExitStatus end = process.script.term_end;
  if (end.signaled) {
    end.value = signo;
  }
  scheduler_.after(process.script.term_delay, [this, pid, end] { die(pid, end); });
}

void SimRunner::signal_groups(int signo, GroupsOf which) {
  if (signo != SIGSTOP && signo != SIGCONT) {
    stop_spares();
  }
  for (auto& [pid, process] : processes_) {
    if (which == GroupsOf::running_workers && process.leader != 0) {
      process.skipped = processes_.at(process.leader).dead;
    }
    const bool is_wanted =
        which == GroupsOf::all_workers || process.skipped == (which == GroupsOf::skipped_workers);
    if (is_wanted && (process.local_rank >= 0 || process.leader != 0)) {
      ask_to_stop(pid, signo);
    }
  }
}

void SimRunner::signal_workers(int /*signo*/) {
  // SIGUSR1 and SIGUSR2: scripted workers ignore them.
}

// Spares the daemons, which a real runner identifies by their environment.
void SimRunner::kill_tree(int local_rank, int /*rank*/) {
  for (const auto& [pid, process] : processes_) {
    const auto leader = processes_.find(process.leader);
    const bool is_below = leader != processes_.end() && leader->second.local_rank == local_rank;
    if (process.local_rank == local_rank || (is_below && !process.script.ignores_term)) {
      kill(pid);
    }
  }
}

bool SimRunner::runs(int local_rank) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second.local_rank == local_rank && !entry.second.dead;
  });
}

void SimRunner::exit_worker(int local_rank, ExitStatus status) {
  for (const auto& [pid, process] : processes_) {
    if (process.local_rank == local_rank && !process.dead) {
      die(pid, status);
      return;
    }
  }
}

void SimRunner::await_nothing_left() {
  stop_spares();
  awaiting_ = true;
  scheduler_.after(soon(), [this] { look_whether_empty(); });
}

void SimRunner::kill_workers() {
  await_nothing_left();
  for (const auto& [pid, process] : processes_) {
    const bool in_group = process.local_rank >= 0 || process.leader != 0;
    if (in_group && (process.local_rank >= 0 || !process.script.ignores_term)) {
      kill(pid);
    }
  }
}

void SimRunner::kill_everything() {
  ++kills_;
  await_nothing_left();
  for (const auto& [pid, process] : processes_) {
    kill(pid);
  }
}

void SimRunner::kill(pid_t pid) {
  const Process& process = processes_.at(pid);
  if (process.dead || process.script.unkillable) {
    return;
  }
  const bool early = workers_gone_ && scheduler_.now() < *workers_gone_ + kHelperNeeds;
  if (process.helper && early && !frees_slowly_) {
    ++helpers_killed_early_;
  }
  note_hurried(process);
  killed_.push_back({pid, "sim", std::nullopt});
  scheduler_.after(soon(), [this, pid] { die(pid, ExitStatus{true, SIGKILL}); });
}

std::vector<Leftover> SimRunner::ask_leftovers() {
  for (auto& [pid, process] : processes_) {
    const bool early = workers_gone_ && scheduler_.now() < *workers_gone_ + kSelfExitTime;
    daemons_hurried_ += early && !process.dead && !process.spare ? 1 : 0;
    ask_to_stop(pid, SIGTERM);
  }
  return running();
}

std::vector<Leftover> SimRunner::leftovers() const {
  return running();
}

LeftoversSeen SimRunner::look_at_leftovers() const {
  LeftoversSeen seen{.only_deaf = true};
  for (const auto& [pid, process] : processes_) {
    seen.only_deaf = seen.only_deaf && (process.dead || process.script.ignores_term);
    seen.shm_manager = seen.shm_manager || (process.manager && !process.dead);
  }
  return seen;
}

std::vector<Leftover> SimRunner::take_killed() {
  return std::exchange(killed_, {});
}

std::vector<Leftover> SimRunner::running() const {
  std::vector<Leftover> found;
  for (const auto& [pid, process] : processes_) {
    if (!process.dead) {
      found.push_back({pid, "sim", std::nullopt});
    }
  }
  return found;
}

// Their pipe is closed: no worker holds it any more.
void SimRunner::let_helpers_exit() {
  workers_gone_ = scheduler_.now();
  for (const auto& [pid, process] : processes_) {
    if (process.helper) {
      scheduler_.after(std::chrono::milliseconds(random_.between(1, 100)),
                       [this, pid = pid] { die(pid, {}); });
    } else if (process.manager) {
      scheduler_.after(kManagerNeeds, [this, pid = pid] { die(pid, {}); });
    }
  }
}

void SimRunner::die(pid_t pid, ExitStatus status) {
  const auto at = processes_.find(pid);
  if (at == processes_.end() || at->second.dead) {
    return;  // killed earlier, while its script was still pending
  }
  Process& process = at->second;
  process.dead = true;
  const Duration seen = soon();
  const Duration reaped = seen + soon() + process.script.freeing;
  if (process.local_rank >= 0 && process.script.uses_library && !status.success()) {
    const WorkerExit exit{process.local_rank, pid, status, false, {}};
    scheduler_.after(seen, [this, exit] { observer_.on_worker_dying(exit); });
  }
  scheduler_.after(reaped, [this, pid, status] { report_end(pid, status); });
}

void SimRunner::report_end(pid_t pid, ExitStatus status) {
  Process& process = processes_.at(pid);
  process.reaped = true;
  note_spare_exit(pid);
  if (process.local_rank >= 0) {
    if (std::ranges::none_of(processes_, [](const auto& entry) {
          return entry.second.local_rank >= 0 && !entry.second.reaped;
        })) {
      let_helpers_exit();
    }
    observer_.on_worker_exit(WorkerExit{process.local_rank, pid, status, false, {}});
  }
  look_whether_empty();
}

void SimRunner::look_whether_empty() {
  const bool groups_empty = std::ranges::all_of(processes_, [](const auto& entry) {
    const Process& process = entry.second;
    return process.reaped || (process.local_rank < 0 && process.leader == 0);
  });
  if (groups_empty && !groups_reported_) {
    groups_reported_ = true;
    observer_.on_groups_empty();
  }
  const bool nothing_left =
      std::ranges::all_of(processes_, [](const auto& entry) { return entry.second.reaped; });
  if (nothing_left && awaiting_) {
    awaiting_ = false;
    frees_slowly_ = false;
    MUSTER_CHECK(pool_.pids().empty());
    processes_.clear();
    observer_.on_nothing_left();
  }
}

std::vector<Survivor> SimRunner::survivors() const {
  std::vector<Survivor> left;
  for (const auto& [pid, process] : processes_) {
    if (!process.dead) {
      left.push_back(Survivor{pid, 'D', "sim"});
    }
  }
  return left;
}

std::string SimRunner::stderr_tail(int /*local_rank*/) {
  return {};
}

void SimRunner::finish_output(Duration /*timeout*/) {}

std::size_t SimRunner::alive() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& entry) { return !entry.second.dead; }));
}

std::size_t SimRunner::unreaped() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& entry) { return !entry.second.reaped; }));
}

bool SimRunner::is_unreaped(int local_rank) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second.local_rank == local_rank && !entry.second.reaped;
  });
}

std::size_t SimRunner::workers_alive() const {
  return static_cast<std::size_t>(std::ranges::count_if(processes_, [](const auto& entry) {
    return !entry.second.dead && entry.second.local_rank >= 0;
  }));
}

}  // namespace muster::sim
