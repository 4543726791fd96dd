// SPDX-License-Identifier: Apache-2.0
#include "process/guard/guard.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
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
constexpr Duration kConsoleTimeout = std::chrono::milliseconds(200);
constexpr int kInternalError = 70;  // as agent/failures/job_result

// A console that is not read must not keep the guard from ending.
void say(const std::string& message) {
  write_within(2, log_line(LogLevel::error, message), kConsoleTimeout);
}

int give_up(const char* what) {
  say(std::string(what) + ": " + errno_text(errno));
  return kInternalError;
}

// What the guard reads from its signalfd.
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

// Children from before us: a shell that started helpers and then became muster by exec.
std::set<pid_t> earlier_children() {
  siginfo_t info{};
  // ECHILD, as a rule, and no need to read /proc. WNOWAIT takes nothing from a child that has
  // ended.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return {};
  }
  const auto children = children_of(::getpid());
  return {children.begin(), children.end()};
}

int run_agent(const std::function<int(UniqueFd)>& agent, PipeEnds link) {
  link.write.reset();  // else we would keep the pipe open, and never read its end
  // A session of its own, so that Ctrl-C and Ctrl-Z at the terminal reach the guard only, which
  // relays them: the agent would get each twice.
  ::setsid();
  ::prctl(PR_SET_NAME, kAgentName);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // If the guard dies while the agent is stopped, nobody else would make it read the link's end:
  // SIGCONT continues it even where it is blocked.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const int code = agent(std::move(link.read));
  // The link's end is seen before that signal comes. It would take back the stop by which a tracer
  // attaches itself, as LeakSanitizer does at a process's end, and both would wait for ever.
  ::prctl(PR_SET_PDEATHSIG, 0);
  return code;
}

// Continues this process again and again, should somebody stop it: SIGCONT does so even where it is
// blocked. It is read from the signalfd with the others, as one that a timer sent.
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

  // For Ctrl-Z, which the user means.
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
  Guard(pid_t agent, UniqueFd signals, UniqueFd link, const LeaseTimer* lease, Duration grace)
      : agent_(agent),
        signals_(std::move(signals)),
        link_(std::move(link)),
        lease_(lease),
        grace_(grace) {
    if (lease_ != nullptr) {
      self_continue_.emplace(lease_->wake_interval());
    }
  }

  // Children from before us are nobody's business.
  void spare(std::set<pid_t> children) { spared_ = std::move(children); }

  int watch() {
    while (!ended_) {
      if (lease_ != nullptr && !signal_is_next()) {
        continue;
      }
      signalfd_siginfo info{};
      const auto count = ::read(signals_.get(), &info, sizeof(info));
      if (count != static_cast<ssize_t>(sizeof(info))) {
        continue;  // EINTR after a stop
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
  // Waits for a signal or for the lease. False: it was not, or not only, a signal.
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

  // The agent may be stopped: what it runs may run no longer, since other nodes may go on without
  // it. It stays, to give an account of itself when it is continued.
  void fence() {
    const auto below = children_of(::getpid());
    if (!proc_is_ours() || std::ranges::find(below, agent_) == below.end()) {
      ::kill(agent_, SIGKILL);  // what is below it cannot be listed: its workers die with it
      return;
    }
    // An agent that has woken up meanwhile may run others by now, which are not to be ended.
    const auto killed = kill_all_below(agent_, kSweepTimeout, [this] {
      if (lease_->is_running()) {
        return false;
      }
      lease_->note_fence();
      return true;
    });
    if (killed.count > 0) {
      say("the agent (pid " + std::to_string(agent_) +
          ") is stopped or hangs, and the other nodes may go on without it; its workers were "
          "ended");
    }
    tell_left(killed.left, "it is left alone");
  }

  // As the first process of a container or the heir of a shell we may have other children.
  void reap() {
    while (true) {
      siginfo_t info{};
      // One SIGCHLD may stand for many ends: signals of one kind do not queue.
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

  // An agent that does not read (it is stopped) must not stop us: the notice is dropped then.
  void relay(const signalfd_siginfo& info) {
    const SignalNotice notice{.signo = static_cast<int>(info.ssi_signo),
                              .code = info.ssi_code,
                              .sender_pid = static_cast<pid_t>(info.ssi_pid),
                              .sender_uid = info.ssi_uid};
    // SIGCONT comes first: an agent that has read the notice may end at once, and a tracer may be
    // about to stop it (see run_agent).
    if (asks_to_end_or_go_on(notice.signo) && !agent_is_done()) {
      ::kill(agent_, SIGCONT);  // a stopped agent handles no signal
    }
    // As a whole or not at all: the pipe does not block, and a notice is smaller than PIPE_BUF.
    [[maybe_unused]] const auto written = ::write(link_.get(), &notice, sizeof(notice));
    if (notice.signo == SIGTSTP) {
      stop();
    }
  }

  // It has closed its end of the link.
  [[nodiscard]] bool agent_is_done() const {
    pollfd link{.fd = link_.get(), .events = 0, .revents = 0};
    return ::poll(&link, 1, 0) > 0 && (link.revents & POLLERR) != 0;
  }

  // The shell that we were started from takes the terminal back. To stop would take back a request
  // to go on that has come already.
  void stop() const {
    if (self_continue_) {
      self_continue_->rest();
    }
    sigset_t go_on;
    sigemptyset(&go_on);
    sigaddset(&go_on, SIGCONT);
    siginfo_t info{};
    const timespec now{};
    // SIGCONT takes back a pending SIGSTOP and the other way round (signal(7)), so that a request
    // to go on that waits to be read from the signalfd would be lost by raise(SIGSTOP).
    const bool continued = ::sigtimedwait(&go_on, &info, &now) == SIGCONT;
    if (!continued || info.si_code == SI_TIMER) {
      static_cast<void>(::raise(SIGSTOP));
    } else {
      static_cast<void>(::raise(SIGCONT));  // to be relayed in its turn
    }
    if (self_continue_) {
      self_continue_->run();
    }
  }

  // An agent that ended by itself has given its descendants their time already.
  void sweep() {
    PatientSweep sweep(spared_, grace_, [this](TimePoint until) { return may_wait(until); });
    const auto result = status_.signaled ? sweep.run(kSweepTimeout)
                                         : kill_descendants_until_none(spared_, kSweepTimeout);
    none_left_ = result.none_left;
    tell_left(result.survivors, "muster ends without it");
    if (!sweep.asked().empty()) {
      say("sent SIGTERM to " + describe_leftovers(sweep.asked()));
    }
    if (!sweep.killed().empty()) {
      say("killed " + describe_leftovers(sweep.killed()));
    }
  }

  // False: another signal asks us to end, or the other nodes may go on without us.
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
    std::string lines;  // written at once, so that the console is waited for once
    for (const auto& left : survivors) {
      lines += log_line(LogLevel::error,
                        "process " + std::to_string(left.pid) + " (" + printable(left.command) +
                            ", state " + left.state + ") was killed but does not end; " + outcome);
    }
    write_within(2, lines, kConsoleTimeout);
  }

  [[nodiscard]] int exit_code() const {
    if (status_.signaled) {
      say("the agent (pid " + std::to_string(agent_) + ") was " + status_.describe() +
          (none_left_ ? "; all its workers were ended"
                      : "; some of what it started may still run: not all could be ended"));
    }
    return status_.shell_code();
  }

  pid_t agent_;
  UniqueFd signals_;
  UniqueFd link_;
  const LeaseTimer* lease_;
  Duration grace_;
  std::set<pid_t> spared_;
  std::optional<SelfContinue> self_continue_;  // where other nodes rely on us
  bool ended_ = false;
  bool none_left_ = false;
  ExitStatus status_;
};

}  // namespace

int run_guarded(const std::function<int(UniqueFd link)>& agent,
                const std::vector<int>& more_signals,
                const LeaseTimer* lease,
                Duration grace) {
  const sigset_t relayed = relayed_signals(more_signals);
  // Before the fork: a signal from now on waits for the signalfd, and the agent starts with the
  // same mask, so that no handler's default ends it.
  ::pthread_sigmask(SIG_BLOCK, &relayed, nullptr);
  auto link = make_pipe();
  if (!link || !set_nonblocking(link->write.get())) {
    return give_up("creating the guard's pipe");
  }
  // Before we are a subreaper: later orphans of the job must not be taken for earlier children.
  auto spared = earlier_children();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // What is buffered would be written by both processes.
  static_cast<void>(std::fflush(nullptr));
  const pid_t pid = ::fork();
  if (pid < 0) {
    return give_up("starting the agent");
  }
  if (pid == 0) {
    return run_agent(agent, std::move(*link));
  }
  link->read.reset();
  UniqueFd signals(::signalfd(-1, &relayed, SFD_CLOEXEC));
  if (!signals) {
    return give_up("creating the guard's signalfd");
  }
  Guard guard(pid, std::move(signals), std::move(link->write), lease, grace);
  guard.spare(std::move(spared));
  return guard.watch();
}

void hide_command_line(int argc, char** argv) {
  if (argc < 1) {
    return;
  }
  // The arguments lie one behind the other in memory; only those that do may be overwritten.
  char* end = argv[0] + std::strlen(argv[0]);
  for (int i = 1; i < argc && argv[i] == end + 1; ++i) {
    end = argv[i] + std::strlen(argv[i]);
  }
  const auto room = static_cast<std::size_t>(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], kAgentName, std::min(room, std::strlen(kAgentName)));
}

}  // namespace muster
