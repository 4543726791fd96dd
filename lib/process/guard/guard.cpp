// SPDX-License-Identifier: Apache-2.0
#include "process/guard/guard.hpp"

#include "base/clock.hpp"
#include "base/logger.hpp"
#include "base/printable.hpp"
#include "base/stream_writer.hpp"
#include "process/start/inherited_state.hpp"
#include "process/tree/descendants.hpp"
#include "process/tree/sweeper.hpp"
#include "process/values/exit_status.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kSweepTimeout = std::chrono::milliseconds(1500);
constexpr int kInternalError = 70;  // same value as in agent/job_result

int give_up(const char* what) {
  log_error(std::string(what) + ": " + errno_text(errno));
  return kInternalError;
}

// The signals that the guard reads from its signalfd.
sigset_t relayed_signals(const std::vector<int>& more) {
  sigset_t set;
  sigemptyset(&set);
  std::vector<int> wanted = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
  wanted.insert(wanted.end(), more.begin(), more.end());
  for (const int signo : wanted) {
    if (sigismember(&inherited_state().ignored, signo) == 0) {
      sigaddset(&set, signo);
    }
  }
  sigaddset(&set, SIGCHLD);
  return set;
}

// Children that existed before this program started, for example if a shell started helpers and
// then replaced itself with muster by exec.
std::set<pid_t> earlier_children() {
  siginfo_t info{};
  // Usually fails with ECHILD, so /proc need not be read. WNOWAIT does not reap a child that has
  // exited.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return {};
  }
  const auto children = children_of(::getpid());
  return {children.begin(), children.end()};
}

// The pipes between guard and agent.
struct Pipes {
  PipeEnds signals;
  PipeEnds outlives;
};

// The guard never waits for the agent, and the agent never waits for the guard.
Result<Pipes> make_pipes() {
  auto signals = make_pipe();
  MUSTER_RETURN_IF_ERROR(signals);
  auto outlives = make_pipe();
  MUSTER_RETURN_IF_ERROR(outlives);
  for (const UniqueFd* end : {&signals->write, &outlives->read, &outlives->write}) {
    MUSTER_RETURN_IF_ERROR(set_nonblocking(end->get()));
  }
  return Pipes{std::move(*signals), std::move(*outlives)};
}

int run_agent(const std::function<int(GuardLink)>& agent, Pipes pipes) {
  pipes.signals.write.reset();  // otherwise we would keep the pipe open and never read EOF
  pipes.outlives.read.reset();
  // A separate session, so that Ctrl-C and Ctrl-Z at the terminal reach only the guard, which
  // relays them. Otherwise the agent would receive each signal twice.
  ::setsid();
  ::prctl(PR_SET_NAME, kAgentName);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // If the guard dies while the agent is stopped, the agent must be continued so that it can read
  // the EOF on the link. SIGCONT continues it even if SIGCONT is blocked.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const int code = agent({std::move(pipes.signals.read), std::move(pipes.outlives.write)});
  // If the guard dies, the agent reads EOF and may return before SIGCONT arrives. During exit,
  // SIGCONT would cancel the stop with which a tracer attaches (LeakSanitizer does so at exit), and
  // agent and tracer would wait for each other forever.
  ::prctl(PR_SET_PDEATHSIG, 0);
  return code;
}

// Periodically sends SIGCONT to this process, in case it was stopped. SIGCONT works even if it is
// blocked. The guard reads it from the signalfd and recognizes it by its code, SI_TIMER.
class SelfContinue {
 public:
  explicit SelfContinue(Duration interval) : interval_(interval) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    made_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    run();
  }

  ~SelfContinue() {
    if (made_) {
      ::timer_delete(timer_);
    }
  }

  SelfContinue(const SelfContinue&) = delete;
  SelfContinue& operator=(const SelfContinue&) = delete;

  void run() const { set(interval_); }

  // Suspends the timer for an intentional stop (Ctrl-Z).
  void rest() const { set(Duration::zero()); }

 private:
  void set(Duration interval) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(interval);
    const timespec time{.tv_sec = seconds.count(), .tv_nsec = (interval - seconds).count()};
    const itimerspec spec{.it_interval = time, .it_value = time};
    if (made_) {
      ::timer_settime(timer_, 0, &spec, nullptr);
    }
  }

  Duration interval_;
  timer_t timer_{};
  bool made_ = false;
};

bool asks_to_end_or_go_on(int signo) {
  return signo != SIGTSTP && signo != SIGUSR1 && signo != SIGUSR2 && signo != SIGWINCH;
}

class Guard {
 public:
  Guard(pid_t agent, UniqueFd signals, Pipes pipes, const LeaseTimer* lease, Duration grace)
      : agent_(agent),
        signals_(std::move(signals)),
        link_(std::move(pipes.signals.write)),
        outlives_(std::move(pipes.outlives.read)),
        lease_(lease),
        grace_(grace) {
    if (lease_ != nullptr) {
      self_continue_.emplace(lease_->wake_interval());
    }
  }

  // Children that existed before muster started are never killed.
  void spare(std::set<pid_t> children) { spared_ = std::move(children); }

  int watch() {
    while (!ended_) {
      if (lease_ != nullptr && !signal_is_next()) {
        continue;
      }
      signalfd_siginfo info{};
      const auto count = ::read(signals_.get(), &info, sizeof(info));
      if (count != static_cast<ssize_t>(sizeof(info))) {
        continue;  // EINTR after being stopped and continued
      }
      if (info.ssi_signo == SIGCHLD) {
        reap();
      } else if (info.ssi_code != SI_TIMER) {
        relay(info);
      }
    }
    link_.reset();
    sweep();
    return exit_code();
  }

 private:
  // Waits for a signal or for the lease to expire. True if a signal can be read.
  bool signal_is_next() {
    std::array<pollfd, 2> ready{{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = lease_->fd(), .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), -1) <= 0) {
      return false;
    }
    if (ready[1].revents != 0 && lease_->take_expired()) {
      fence();
    }
    return ready[0].revents != 0;
  }

  // The agent may be stopped. Its workers must not keep running, because other nodes may continue
  // without this node. The agent itself survives so that it can report this when it is continued.
  void fence() {
    const auto below = children_of(::getpid());
    if (!proc_is_ours() || std::ranges::find(below, agent_) == below.end()) {
      ::kill(agent_, SIGKILL);  // its descendants cannot be listed, but its workers die with it
      return;
    }
    // If the agent has resumed in the meantime, it may already have started new workers, which must
    // not be killed.
    const auto killed = kill_all_below(agent_, kSweepTimeout, [this] {
      if (lease_->is_running()) {
        return false;
      }
      lease_->note_fence();
      return true;
    });
    if (killed.count > 0) {
      log_error("the agent (pid " + std::to_string(agent_) +
                ") is stopped or hung, and the other nodes may continue without it; killed its "
                "workers");
    }
    tell_left(killed.left, "it keeps running");
  }

  // As init of a container, or after exec from a shell, the guard may have other children.
  void reap() {
    while (true) {
      siginfo_t info{};
      // One SIGCHLD may represent several exits, because pending signals of the same kind are
      // merged.
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
        return;
      }
      spared_.erase(info.si_pid);
      if (info.si_pid == agent_) {
        ended_ = true;
        status_ = ExitStatus::from_wait(info.si_code, info.si_status);
        return;
      }
    }
  }

  // An agent that is stopped does not read the link. It must not block us, so the notice is dropped
  // if the pipe is full.
  void relay(const signalfd_siginfo& info) {
    const SignalNotice notice{.signo = static_cast<int>(info.ssi_signo),
                              .code = info.ssi_code,
                              .sender_pid = static_cast<pid_t>(info.ssi_pid),
                              .sender_uid = info.ssi_uid};
    // Send SIGCONT before the notice. After reading the notice the agent may exit at once, and a
    // SIGCONT during exit would cancel a tracer's stop and hang both (see run_agent).
    if (asks_to_end_or_go_on(notice.signo) && !agent_is_done()) {
      ::kill(agent_, SIGCONT);  // a stopped agent cannot handle signals
    }
    // Writes the whole notice or nothing: the pipe is non-blocking, and a notice is smaller than
    // PIPE_BUF.
    [[maybe_unused]] const auto written = ::write(link_.get(), &notice, sizeof(notice));
    if (notice.signo == SIGTSTP) {
      stop();
    }
  }

  // True if the agent has closed its end of the link.
  [[nodiscard]] bool agent_is_done() const {
    pollfd link{.fd = link_.get(), .events = 0, .revents = 0};
    return ::poll(&link, 1, 0) > 0 && (link.revents & POLLERR) != 0;
  }

  // Stops this process so that the shell regains the terminal. Does not stop it if a SIGCONT has
  // already arrived.
  void stop() const {
    if (self_continue_) {
      self_continue_->rest();
    }
    sigset_t go_on;
    sigemptyset(&go_on);
    sigaddset(&go_on, SIGCONT);
    siginfo_t info{};
    const timespec now{};
    // SIGCONT discards a pending SIGSTOP and vice versa (signal(7)), so raise(SIGSTOP) would
    // discard a SIGCONT that is still unread in the signalfd.
    const bool continued = ::sigtimedwait(&go_on, &info, &now) == SIGCONT;
    if (!continued || info.si_code == SI_TIMER) {
      static_cast<void>(::raise(SIGSTOP));
    } else {
      static_cast<void>(::raise(SIGCONT));  // restore the consumed signal, which is also relayed
    }
    if (self_continue_) {
      self_continue_->run();
    }
  }

  // The pid of a process that has exited may be in use by another process, which does not descend
  // from us. A descendant becomes our child when its parents die, also while we list the processes,
  // so check both.
  void spare_outliving() {
    std::set<pid_t> named;
    pid_t pid = 0;
    while (::read(outlives_.get(), &pid, sizeof(pid)) == static_cast<ssize_t>(sizeof(pid))) {
      named.insert(pid);
    }
    if (named.empty()) {
      return;
    }
    for (const ProcessRow& row : descendants()) {
      if (named.contains(row.pid) && row.state != 'Z') {
        spared_.insert(row.pid);
      }
    }
    for (const pid_t each : named) {
      siginfo_t info{};
      constexpr int kOnlyLook = WEXITED | WNOHANG | WNOWAIT;
      if (::waitid(P_PID, static_cast<id_t>(each), &info, kOnlyLook) == 0 && info.si_pid == 0) {
        spared_.insert(each);
      }
    }
  }

  // An agent that exited normally has already given its descendants time to exit.
  void sweep() {
    spare_outliving();
    PatientSweep sweep(spared_, grace_, [this](TimePoint until) { return may_wait(until); });
    const auto result = status_.signaled ? sweep.run(kSweepTimeout)
                                         : kill_descendants_until_none(spared_, kSweepTimeout);
    none_left_ = result.none_left;
    tell_left(result.survivors, "muster exits anyway");
    if (!sweep.asked().empty()) {
      log_error("sent SIGTERM to " + describe_leftovers(sweep.asked()));
    }
    if (!sweep.killed().empty()) {
      log_error("killed " + describe_leftovers(sweep.killed()));
    }
  }

  // False if another signal requests a stop, or if the other nodes may continue without us.
  [[nodiscard]] bool may_wait(TimePoint until) const {
    const int lease_fd = lease_ != nullptr ? lease_->fd() : -1;
    std::array<pollfd, 2> ready{{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = lease_fd, .events = POLLIN, .revents = 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
    ::poll(ready.data(), ready.size(), static_cast<int>(std::max<long>(0, left.count())));
    signalfd_siginfo info{};
    if (ready[0].revents != 0 &&
        ::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const int signo = static_cast<int>(info.ssi_signo);
      const bool asks_to_end = signo != SIGCHLD && signo != SIGCONT && asks_to_end_or_go_on(signo);
      return !asks_to_end && ready[1].revents == 0;
    }
    return ready[1].revents == 0;
  }

  static void tell_left(const std::vector<Survivor>& survivors, const std::string& outcome) {
    const LogBatch batch;
    for (const auto& left : survivors) {
      log_error("process " + std::to_string(left.pid) + " (" + printable(left.command) +
                ", state " + left.state + ") was killed but does not exit; " + outcome);
    }
  }

  [[nodiscard]] int exit_code() const {
    if (status_.signaled) {
      log_error("the agent (pid " + std::to_string(agent_) + ") was " + status_.describe() +
                (none_left_ ? "; all its workers were killed"
                            : "; some of its processes may still be running"));
    }
    return status_.shell_code();
  }

  pid_t agent_;
  UniqueFd signals_;
  UniqueFd link_;
  UniqueFd outlives_;
  const LeaseTimer* lease_;
  Duration grace_;
  std::set<pid_t> spared_;
  std::optional<SelfContinue> self_continue_;  // only if other nodes depend on our lease
  bool ended_ = false;
  bool none_left_ = false;
  ExitStatus status_;
};

}  // namespace

int run_guarded(const std::function<int(GuardLink link)>& agent,
                const std::vector<int>& more_signals,
                const LeaseTimer* lease,
                Duration grace) {
  const sigset_t relayed = relayed_signals(more_signals);
  // Block signals before the fork: from now on they stay pending until the signalfd is read. The
  // agent starts with the same mask, so no default action can kill it.
  ::pthread_sigmask(SIG_BLOCK, &relayed, nullptr);
  auto pipes = make_pipes();
  if (!pipes) {
    return give_up("cannot create the guard's pipes");
  }
  // List children before we become a subreaper. Otherwise later orphans of the job could be
  // mistaken for earlier children.
  auto spared = earlier_children();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Without this, both processes would write the buffered data.
  static_cast<void>(std::fflush(nullptr));
  const pid_t pid = ::fork();
  if (pid < 0) {
    return give_up("cannot start the agent");
  }
  if (pid == 0) {
    return run_agent(agent, std::move(*pipes));
  }
  pipes->signals.read.reset();
  pipes->outlives.write.reset();
  UniqueFd signals(::signalfd(-1, &relayed, SFD_CLOEXEC));
  if (!signals) {
    return give_up("cannot create the guard's signalfd");
  }
  Guard guard(pid, std::move(signals), std::move(*pipes), lease, grace);
  guard.spare(std::move(spared));
  return guard.watch();
}

void hide_command_line(int argc, char** argv) {
  if (argc < 1) {
    return;
  }
  // The arguments are normally contiguous in memory. Only contiguous arguments are overwritten.
  char* end = argv[0] + std::strlen(argv[0]);
  for (int i = 1; i < argc && argv[i] == end + 1; ++i) {
    end = argv[i] + std::strlen(argv[i]);
  }
  const auto room = static_cast<std::size_t>(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], kAgentName, std::min(room, std::strlen(kAgentName)));
}

}  // namespace muster
