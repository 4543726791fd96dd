// SPDX-License-Identifier: Apache-2.0
#include "process/tree/sweeper.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "process/tree/descendants.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kNamedMax = 8;
constexpr const char* kShmManager = "torch_shm_manag";  // 15 characters: TASK_COMM_LEN

Leftover leftover_of(const ProcessRow& row) {
  return {.pid = row.pid, .command = row.command, .rank = rank_in_environment(row.pid)};
}

// Reaps all exited children. True if children remain.
bool reap_ended(Sweeper& sweeper) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) {
      return errno != ECHILD;
    }
    if (info.si_pid == 0) {
      return true;
    }
    sweeper.reaped(info.si_pid);
  }
}

// False on timeout.
bool wait_for_child_signal(TimePoint until) {
  const auto left = until - steady_now();
  if (left <= Duration::zero()) {
    return false;
  }
  // SIGCHLD is blocked in guard and agent alike (prepare_process), so no signal is lost between two
  // waits.
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  return ::sigtimedwait(&child, nullptr, &limit) == SIGCHLD || errno == EINTR;
}

}  // namespace

// One descendant. `row` is empty if /proc does not show our pid namespace.
struct Sweeper::Target {
  pid_t pid;
  bool is_child;  // our own child
  std::optional<ProcessRow> row;
  const UniqueFd& handle;

  [[nodiscard]] bool runs() const { return row && row->state != 'Z' && row->state != 'X'; }

  void send(int signo) const { send_signal(handle, pid, signo); }
};

// Walks top-down: a dead parent forks no more children. Its orphans become our children, and the
// next walk finds them.
void Sweeper::walk(pid_t parent, const Visit& visit) const {
  const bool is_ours = parent == ::getpid();
  for (const pid_t child : children_of(parent)) {
    if (is_ours && spared_.contains(child)) {
      continue;
    }
    // A listed pid may have been reused in the meantime. It is safe to use a handle that was opened
    // before we confirmed the parent. Our own child keeps its pid until we reap it.
    const UniqueFd handle = open_process(child);
    auto row = read_process(child);
    if (!is_ours && (!row || row->parent != parent)) {
      continue;
    }
    visit(Target{child, is_ours, std::move(row), handle});
    walk(child, visit);
  }
}

// Other descendants may be reaped without our knowledge and their pids reused, so only our own
// children are remembered.
void Sweeper::kill(const Target& target) {
  if (target.is_child && !killed_.insert(target.pid).second) {
    return;
  }
  const bool is_noted =
      std::ranges::find(killed_leftovers_, target.pid, &Leftover::pid) != killed_leftovers_.end();
  if (!is_noted && target.runs()) {
    killed_leftovers_.push_back(leftover_of(*target.row));
  }
  target.send(SIGKILL);
}

void Sweeper::kill_all() {
  walk(::getpid(), [this](const Target& target) { kill(target); });
}

void Sweeper::kill_groups(const std::set<pid_t>& groups) {
  if (groups.empty()) {
    return;
  }
  walk(::getpid(), [&](const Target& target) {
    if (!target.row || !groups.contains(target.row->group)) {
      return;
    }
    // Python's resource tracker blocks SIGTERM until it has set SIG_IGN.
    const SignalMasks masks = signal_masks(target.pid, SIGTERM);
    if (groups.contains(target.pid) || !(masks.ignored || masks.blocked)) {
      kill(target);
    }
  });
}

void Sweeper::kill_strays(int rank, const std::vector<pid_t>& workers) {
  Sweeper orphans(spared_);
  std::ranges::for_each(workers, [&](pid_t pid) { orphans.spare(pid); });
  orphans.walk(::getpid(), [&](const Target& target) {
    const SignalMasks masks = signal_masks(target.pid, SIGTERM);
    if (target.runs() && rank_in_environment(target.pid) == rank &&
        !(masks.ignored || masks.blocked)) {
      kill(target);
    }
  });
}

std::vector<Leftover> Sweeper::ask_all() {
  std::vector<Leftover> asked;
  walk(::getpid(), [&](const Target& target) {
    if (target.runs() && !signal_masks(target.pid, SIGTERM).ignored) {
      asked.push_back(leftover_of(*target.row));
    }
    target.send(SIGTERM);
    target.send(SIGCONT);
  });
  return asked;
}

std::vector<Leftover> Sweeper::take_killed() {
  return std::exchange(killed_leftovers_, {});
}

std::vector<Leftover> Sweeper::leftovers() const {
  std::vector<Leftover> found;
  walk(::getpid(), [&](const Target& target) {
    if (target.runs()) {
      found.push_back(leftover_of(*target.row));
    }
  });
  return found;
}

LeftoversSeen Sweeper::look_once() const {
  LeftoversSeen seen{.only_deaf = proc_is_ours()};
  walk(::getpid(), [&](const Target& target) {
    if (target.runs()) {
      seen.only_deaf = seen.only_deaf && signal_masks(target.pid, SIGTERM).ignored;
      seen.shm_manager = seen.shm_manager || target.row->command == kShmManager;
    }
  });
  return seen;
}

// A walk may miss a process whose parent exits meanwhile; a second walk finds it.
LeftoversSeen Sweeper::look() const {
  const LeftoversSeen first = look_once();
  const LeftoversSeen second = look_once();
  return {.only_deaf = first.only_deaf && second.only_deaf,
          .shm_manager = first.shm_manager || second.shm_manager};
}

bool Sweeper::any_left() const {
  for (const pid_t child : children_of(::getpid())) {
    if (!spared_.contains(child)) {
      return true;
    }
  }
  return false;
}

std::string describe_leftovers(const std::vector<Leftover>& processes) {
  std::string text = counted(processes.size(),
                             "process that a worker left running: ",
                             "processes that workers left running: ");
  for (std::size_t i = 0; i < std::min(processes.size(), kNamedMax); ++i) {
    const Leftover& one = processes[i];
    text += (i == 0 ? "" : ", ") + std::to_string(one.pid) + " (" + one.command;
    text += one.rank ? ", rank " + std::to_string(*one.rank) + ")" : ")";
  }
  if (processes.size() > kNamedMax) {
    text += " and " + std::to_string(processes.size() - kNamedMax) + " more";
  }
  return text;
}

SweepResult kill_descendants_until_none(const std::set<pid_t>& spared, Duration timeout) {
  return PatientSweep(spared, Duration::zero(), {}).run(timeout);
}

bool PatientSweep::any_left() {
  return reap_ended(sweeper_) && (!has_spared_ || sweeper_.any_left());
}

PatientSweep::End PatientSweep::await_none(TimePoint until) {
  while (any_left()) {
    if (steady_now() >= until) {
      return End::time_over;
    }
    if (!wait_(until)) {
      return End::hurry;
    }
  }
  return End::none_left;
}

PatientSweep::End PatientSweep::await_asked() {
  const auto until = steady_now() + grace_;
  End end = End::time_over;
  while (end == End::time_over && steady_now() < until && !sweeper_.look().only_deaf) {
    end = await_none(std::min(until, steady_now() + kSelfExitTime));
  }
  return end;
}

SweepResult PatientSweep::run(Duration kill_timeout) {
  if (wait_) {
    const TimePoint began = steady_now();
    End end = await_none(began + kSelfExitTime);
    if (end == End::time_over && sweeper_.look().shm_manager) {
      end = await_none(began + kShmManagerTime);
    }
    if (end == End::time_over && grace_ > Duration::zero()) {
      asked_ = sweeper_.ask_all();
      end = await_asked();
    }
    if (end == End::none_left) {
      return {.none_left = true, .survivors = {}};
    }
  }
  const auto until = steady_now() + kill_timeout;
  SweepResult result{.none_left = true, .survivors = {}};
  while (any_left()) {
    sweeper_.kill_all();
    // Each exit may turn more orphans into our children, so list all descendants again.
    if (!wait_for_child_signal(until)) {
      auto rows = descendants();
      std::erase_if(rows, [&](const ProcessRow& row) { return sweeper_.is_spared(row.pid); });
      result = {.none_left = false, .survivors = survivors_among(rows, ::getpid())};
      break;
    }
  }
  killed_ = sweeper_.take_killed();
  return result;
}

}  // namespace muster
