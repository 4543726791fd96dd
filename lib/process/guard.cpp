// SPDX-License-Identifier: Apache-2.0
#include "process/guard.hpp"

#include "process/descendants.hpp"
#include "process/exit_status.hpp"
#include "process/signals.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
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

constexpr const char* kAgentName = "job-agent";
constexpr Duration kSweepPatience = std::chrono::milliseconds(1500);
constexpr int kInternalError = 70;  // as agent/job_result

void say(const std::string& words) {
  const std::string line = "muster: error: " + words + "\n";
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

int give_up(const char* what) {
  say(std::string(what) + ": " + errno_words(errno));
  return kInternalError;
}

// What the guard reads from its signalfd.
sigset_t relayed_signals(const std::vector<int>& more) {
  sigset_t set;
  sigemptyset(&set);
  std::vector<int> wanted = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
  wanted.insert(wanted.end(), more.begin(), more.end());
  for (const int signo : wanted) {
    if (sigismember(&inherited_signals().ignored, signo) == 0) {
      sigaddset(&set, signo);
    }
  }
  sigaddset(&set, SIGCHLD);
  return set;
}

// Children from before us: a shell that started helpers and then became muster by exec.
std::set<pid_t> earlier_children() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return {};
  }
  const auto children = children_of(::getpid());
  return {children.begin(), children.end()};
}

int run_agent(const std::function<int(UniqueFd)>& agent, PipeEnds link) {
  link.write.reset();
  ::setsid();
  ::prctl(PR_SET_NAME, kAgentName);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return agent(std::move(link.read));
}

class Guard {
 public:
  Guard(pid_t agent, UniqueFd signals, UniqueFd link, const LeaseTimer* lease)
      : agent_(agent), signals_(std::move(signals)), link_(std::move(link)), lease_(lease) {}

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
      } else {
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
    if (std::ranges::find(below, agent_) == below.end()) {
      ::kill(agent_, SIGKILL);  // nothing can be listed without /proc: its workers die with it
      return;
    }
    // An agent that has woken up meanwhile may run others by now, which are not to be ended.
    const auto killed = kill_all_below(agent_, kSweepPatience, [this] {
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
                              .sender_pid = static_cast<pid_t>(info.ssi_pid),
                              .sender_uid = info.ssi_uid};
    [[maybe_unused]] const auto written = ::write(link_.get(), &notice, sizeof(notice));
    // The shell that we were started from takes the terminal back. To stop takes back a request to
    // go on that has come already.
    sigset_t pending;
    if (notice.signo == SIGTSTP && ::sigpending(&pending) == 0 &&
        sigismember(&pending, SIGCONT) == 0) {
      static_cast<void>(::raise(SIGSTOP));
    }
  }

  void sweep() {
    tell_left(kill_descendants_until_none(spared_, kSweepPatience), "muster ends without it");
  }

  static void tell_left(const std::vector<Survivor>& survivors, const std::string& outcome) {
    for (const auto& left : survivors) {
      say("process " + std::to_string(left.pid) + " (" + left.command + ", state " + left.state +
          ") was killed but does not end; " + outcome);
    }
  }

  [[nodiscard]] int exit_code() const {
    if (status_.signaled) {
      say("the agent (pid " + std::to_string(agent_) + ") was " + status_.describe() +
          "; all its workers were ended");
    }
    return status_.shell_code();
  }

  pid_t agent_;
  UniqueFd signals_;
  UniqueFd link_;
  const LeaseTimer* lease_;
  std::set<pid_t> spared_;
  bool ended_ = false;
  ExitStatus status_;
};

}  // namespace

int run_guarded(const std::function<int(UniqueFd link)>& agent,
                const std::vector<int>& more_signals,
                const LeaseTimer* lease) {
  const sigset_t relayed = relayed_signals(more_signals);
  ::pthread_sigmask(SIG_BLOCK, &relayed, nullptr);
  auto link = make_pipe();
  if (!link || !set_nonblocking(link->write.get())) {
    return give_up("making the guard's pipe");
  }
  auto spared = earlier_children();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
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
    return give_up("opening the guard's signals");
  }
  Guard guard(pid, std::move(signals), std::move(link->write), lease);
  guard.spare(std::move(spared));
  return guard.watch();
}

void hide_command_line(int argc, char** argv) {
  if (argc < 1) {
    return;
  }
  // The words lie one behind the other; only those that do may be overwritten.
  char* end = argv[0] + std::strlen(argv[0]);
  for (int i = 1; i < argc && argv[i] == end + 1; ++i) {
    end = argv[i] + std::strlen(argv[i]);
  }
  const auto room = static_cast<std::size_t>(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], kAgentName, std::min(room, std::strlen(kAgentName)));
}

}  // namespace muster
