// SPDX-License-Identifier: Apache-2.0
#include "process/guard/guard.hpp"

#include "job_probe.hpp"
#include "process/start/inherited_state.hpp"
#include "process/tree/descendants.hpp"
#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

// A worker with every kind of process that could outlive it: a child in its group, one in a
// separate session, and a double-forked daemon. All of them ignore every signal that can be
// ignored.
const std::vector<std::string> kClingingWorker = {
    "ignore",      "TERM", "ignore", "INT",    "ignore", "HUP",  "fork", "{",     "wait", "}",
    "fork-setsid", "{",    "daemon", "{",      "say",    "deep", "wait", "}",     "wait", "}",
    "daemon",      "{",    "say",    "daemon", "wait",   "}",    "say",  "ready", "wait"};

std::vector<std::string> clinging_job(const std::string& count = "2") {
  auto argv = mini_job({count, kPuppet});
  argv.insert(argv.end(), kClingingWorker.begin(), kClingingWorker.end());
  return argv;
}

// Both workers and their four descendants have printed their lines.
void wait_for_all(JobProbe& job) {
  REQUIRE(job.says("ready"));
  REQUIRE(job.says("deep"));
  REQUIRE(job.says("daemon"));
}

// The same with a lease of half a second, which starts when the guard receives SIGUSR2.
std::vector<std::string> leased_job() {
  auto argv = clinging_job();
  argv.insert(argv.begin() + 1, {"--lease", "500"});
  argv.insert(argv.begin() + 5, {"ignore", "USR2"});
  return argv;
}

// Starts the lease. Returns the agent's pid.
pid_t begin_lease(JobProbe& job) {
  wait_for_all(job);
  const pid_t agent = job.number_after(" agent ");
  job.signal(SIGUSR2);
  REQUIRE(job.says("notice 12"));
  return agent;
}

bool is_refused(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) != 0 &&
         errno == ECONNREFUSED;
}

// Plays the agent: reports its pid and waits for SIGUSR1. Returns 1 if it has received SIGCONT by
// then.
int was_continued(bool closes_link, UniqueFd& link) {
  if (closes_link) {
    link.reset();
  }
  const std::string pid = "agent " + std::to_string(::getpid()) + "\n";
  [[maybe_unused]] const auto written = ::write(1, pid.data(), pid.size());
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  ::sigwaitinfo(&signals, nullptr);
  ::sigpending(&signals);
  return sigismember(&signals, SIGCONT);
}

// Plays an agent with one child process, and allows it to outlive the job or not.
int leave_a_child(bool outlives, const GuardLink& link) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    std::_Exit(0);
  }
  std::printf("child %d\n", child);
  std::fflush(stdout);
  if (outlives && ::write(link.outlives.get(), &child, sizeof(child)) != sizeof(child)) {
    return 1;
  }
  return 0;
}

void stop(pid_t pid) {
  ::kill(pid, SIGSTOP);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED) == 0);
}

}  // namespace

TEST_CASE("guard: its SIGKILL leaves no process") {
  JobProbe job({.argv = clinging_job()});
  wait_for_all(job);
  job.signal(SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);
}

TEST_CASE("guard: spares only a process that may outlive the job") {
  const bool outlives = GENERATE(true, false);
  static_cast<void>(std::fflush(nullptr));  // else the child would also write buffered output
  JobProbe job({.argv = {kPuppet}, .in_child = [&] {
                  prepare_process();
                  std::_Exit(
                      run_guarded([&](GuardLink link) { return leave_a_child(outlives, link); }));
                }});
  const pid_t child = job.number_after("child ");
  REQUIRE(child > 0);
  CHECK(job.exit_code() == 0);
  CHECK((::kill(child, 0) == 0) == outlives);
  if (outlives) {
    ::kill(child, SIGKILL);
  }
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: the agent's SIGKILL leaves no process and is reported") {
  JobProbe job({.argv = clinging_job("1")});  // with two, one might still be starting
  wait_for_all(job);
  const pid_t agent = job.number_after(" agent ");
  ::kill(agent, SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);
  CHECK(job.err().find("killed 4 processes that workers left running: ") != std::string::npos);
  CHECK(job.err().find(" (muster-puppet, rank 0)") != std::string::npos);
  CHECK(job.err().ends_with("muster: error: the agent (pid " + std::to_string(agent) +
                            ") was killed by SIGKILL; all its workers were killed\n"));
}

TEST_CASE("guard: after the agent's SIGKILL leftovers get SIGTERM and the grace period", "[slow]") {
  JobProbe job({.argv = mini_job({"--grace",
                                  "60000",
                                  "1",
                                  kPuppet,
                                  "fork-setsid",
                                  "{",
                                  "handle",
                                  "TERM",
                                  "pids",
                                  "wait",
                                  "sleep",
                                  "50",
                                  "say",
                                  "saved",
                                  "}",
                                  "wait"})});
  const pid_t left = job.number_after("pid ");
  ::kill(job.number_after(" agent "), SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(job.out().find("saved") != std::string::npos);
  CHECK(job.err().find("sent SIGTERM to 1 process that a worker left running: " +
                       std::to_string(left) + " (muster-puppet, rank 0)") != std::string::npos);
  CHECK(job.err().find("killed 1") == std::string::npos);
}

TEST_CASE("guard: a signal or the lease's expiry ends that grace period", "[slow]") {
  const bool by_lease = GENERATE(false, true);
  auto argv = leased_job();
  argv.insert(argv.begin() + 1, {"--grace", "3600000"});
  JobProbe job({.argv = argv});
  pid_t agent = 0;
  if (by_lease) {
    agent = begin_lease(job);
  } else {
    wait_for_all(job);
    agent = job.number_after(" agent ");
  }
  ::kill(agent, SIGKILL);
  REQUIRE(ends(agent));
  if (!by_lease) {
    job.signal(SIGTERM);
  }
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: SIGKILL for its whole process group leaves no process") {
  JobProbe job({.argv = clinging_job(), .in_child = [] { ::setpgid(0, 0); }});
  wait_for_all(job);
  ::kill(-job.pid(), SIGKILL);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: killing either process of an unprivileged user's job leaves no process") {
  if (::geteuid() != 0) {
    return;  // then the other cases cover this one
  }
  const TempDir dir;
  for (const auto& program : {kMiniJob, kPuppet}) {
    const auto name = std::filesystem::path(program).filename();
    std::filesystem::copy_file(program, dir.path() / name);
  }
  const auto become_nobody = [] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) {
      std::_Exit(96);
    }
  };
  const bool kill_agent = GENERATE(false, true);
  auto argv = clinging_job();
  argv[0] = dir.path() / std::filesystem::path(kMiniJob).filename();
  argv[2] = dir.path() / std::filesystem::path(kPuppet).filename();
  JobProbe job({.argv = argv, .in_child = become_nobody});
  wait_for_all(job);
  ::kill(kill_agent ? job.number_after(" agent ") : job.pid(), SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);
}

TEST_CASE("guard: an empty environment does not hide a daemon") {
  JobProbe job({.argv = mini_job({"1",
                                  "/usr/bin/env",
                                  "-i",
                                  kPuppet,
                                  "daemon",
                                  "{",
                                  "say",
                                  "ready",
                                  "wait",
                                  "}",
                                  "wait"})});
  REQUIRE(job.says("ready"));
  job.signal(SIGKILL);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: an unrelated process with the same name survives") {
  JobProbe stranger({.argv = {kPuppet, "say", "up", "wait"}});
  REQUIRE(stranger.says("up"));
  JobProbe job({.argv = clinging_job()});
  wait_for_all(job);
  job.signal(SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(::kill(stranger.pid(), 0) == 0);
  const auto row = read_process(stranger.pid());
  REQUIRE(row);
  CHECK(row->state == 'S');
}

TEST_CASE("guard: a helper that was started earlier survives") {
  // Like a shell script that ends with exec: its helper becomes a child of the guard.
  JobProbe job({.argv = {"/bin/sh",
                         "-c",
                         "\"$1\" pids wait & exec \"$0\" 1 \"$1\" say ready daemon '{' wait '}'",
                         kMiniJob,
                         kPuppet}});
  const pid_t helper = job.number_after("pid ");
  REQUIRE(helper > 0);
  CHECK(job.exit_code() == 0);
  CHECK(job.says("ready"));
  const auto row = read_process(helper);
  REQUIRE(row);
  CHECK(row->command.starts_with("muster-puppet"));
  ::kill(helper, SIGKILL);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: the exit code is the agent's") {
  JobProbe job({.argv = mini_job({"1", kPuppet, "exit", "37"})});
  CHECK(job.exit_code() == 37);
}

TEST_CASE("guard: relays signals, and a worker that handles them exits on its own") {
  const auto [name, signo] = GENERATE(table<std::string, int>(
      {{"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}}));
  JobProbe job(
      {.argv = mini_job({"1", kPuppet, "handle", name, "say", "ready", "wait", "exit", "5"})});
  REQUIRE(job.says("ready"));
  job.signal(signo);
  CHECK(job.says("got " + name));
  CHECK(job.exit_code() == 5);
}

TEST_CASE("guard: a signal ignored at startup stays ignored, including in workers") {
  JobProbe job({.argv = mini_job({"1", kPuppet, "mask", "handle", "USR1", "say", "ready", "wait"}),
                .in_child = [] { ::signal(SIGHUP, SIG_IGN); }});
  REQUIRE(job.says("ignored: HUP\n"));
  REQUIRE(job.says("ready"));
  job.signal(SIGHUP);
  job.signal(SIGUSR1);  // arrives later, so a reaction to HUP would have been noticed before
  CHECK(job.says("got USR1"));
  CHECK(job.exit_code() == 0);
  CHECK(job.out().find("notice 1\n") == std::string::npos);
}

TEST_CASE("guard: relays additional signals on request") {
  JobProbe job({.argv = mini_job(
                    {"--more", std::to_string(SIGALRM), "1", kPuppet, "say", "ready", "wait"})});
  REQUIRE(job.says("ready"));
  job.signal(SIGALRM);
  CHECK(job.says("notice 14"));
  CHECK(job.exit_code() == 128 + SIGKILL);
}

TEST_CASE("guard: Ctrl-Z stops the workers and fg continues them") {
  JobProbe job({.argv = mini_job({"1", kPuppet, "handle", "USR1", "say", "ready", "wait"})});
  REQUIRE(job.says("ready"));
  job.signal(SIGTSTP);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(job.pid()), &info, WSTOPPED) == 0);
  CHECK(job.says("notice " + std::to_string(SIGTSTP)));
  job.signal(SIGCONT);
  CHECK(job.says("notice " + std::to_string(SIGCONT)));
  job.signal(SIGUSR1);
  CHECK(job.says("got USR1"));
  CHECK(job.exit_code() == 0);
}

TEST_CASE("guard: the agent's name and command line differ, so killing by name spares it") {
  JobProbe job({.argv = clinging_job("1")});
  wait_for_all(job);
  const pid_t agent = job.number_after(" agent ");
  const auto row = read_process(agent);
  REQUIRE(row);
  CHECK(row->command == "job-agent");
  const auto cmdline = read_file("/proc/" + std::to_string(agent) + "/cmdline");
  CHECK(cmdline.find("mini") == std::string::npos);
  CHECK(cmdline.find("puppet") == std::string::npos);
  CHECK(cmdline.starts_with("job-agent"));
  job.signal(SIGKILL);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: closed standard streams are not reused for something else") {
  JobProbe job(
      {.argv = mini_job({"--quiet", "1", kPuppet, "fds"}), .in_child = [] { ::close(0); }});
  CHECK(job.says("open: 0 1 2\n"));
  CHECK(job.exit_code() == 0);
}

TEST_CASE("guard: the agent's socket refuses no client before its last descendant is gone",
          "[slow]") {
  JobProbe job(
      {.argv = mini_job({"--listen", "1", kPuppet, "daemon", "{", "pids", "wait", "}", "wait"})});
  const pid_t agent = job.number_after(" agent ");
  const int port = job.number_after("port ");
  const pid_t daemon = job.number_after("pid ");
  REQUIRE(daemon > 0);
  CHECK_FALSE(is_refused(port));
  stop(job.pid());
  ::kill(agent, SIGKILL);
  REQUIRE(ends(agent));
  // The agent is dead, and the guard has not yet killed the remaining processes.
  CHECK(read_process(daemon));
  CHECK_FALSE(is_refused(port));
  job.signal(SIGCONT);
  while (!is_refused(port)) {
  }
  CHECK_FALSE(read_process(daemon));
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: when a stopped agent's lease expires, its workers are killed but it is not",
          "[slow]") {
  JobProbe job({.argv = leased_job()});
  const pid_t agent = begin_lease(job);
  ::kill(agent, SIGSTOP);
  REQUIRE(job.warns("the agent (pid " + std::to_string(agent) +
                    ") is stopped or hung, and the other nodes may continue without it; killed "
                    "its workers\n"));
  CHECK(kill_all_below(agent, Duration{}).left.empty());
  const auto row = read_process(agent);
  REQUIRE(row);
  CHECK(row->state == 'T');
  ::kill(agent, SIGCONT);
  CHECK(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);  // the workers' code, as seen by the agent
}

TEST_CASE("guard: its SIGKILL leaves no process of a job whose agent is stopped") {
  JobProbe job({.argv = clinging_job()});
  wait_for_all(job);
  const pid_t agent = job.number_after(" agent ");
  ::kill(agent, SIGSTOP);
  job.signal(SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(ends(agent));
}

TEST_CASE("guard: a stopped agent handles a signal that ends the job") {
  JobProbe job({.argv = mini_job({"1", kPuppet, "say", "ready", "wait"})});
  REQUIRE(job.says("ready"));
  ::kill(job.number_after(" agent "), SIGSTOP);
  job.signal(SIGTERM);
  CHECK(job.exit_code() == 128 + SIGTERM);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: sends no SIGCONT to an agent that has closed its end of the link") {
  const bool is_done = GENERATE(true, false);
  static_cast<void>(std::fflush(nullptr));  // else the child would also write buffered output
  JobProbe job({.argv = {kPuppet}, .in_child = [&] {
                  prepare_process();
                  std::_Exit(run_guarded(
                      [&](GuardLink link) { return was_continued(is_done, link.signals); }));
                }});
  const pid_t agent = job.number_after("agent ");
  REQUIRE(agent > 0);
  job.signal(SIGINT);
  job.signal(SIGTSTP);  // delivered after it, because its number is higher
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(job.pid()), &info, WSTOPPED) == 0);
  ::kill(agent, SIGUSR1);
  REQUIRE(ends(agent));
  job.signal(SIGCONT);
  CHECK(job.exit_code() == (is_done ? 0 : 1));
}

TEST_CASE("guard: stopped with its agent, it still kills the workers when the lease expires",
          "[slow]") {
  JobProbe job({.argv = leased_job()});
  const pid_t agent = begin_lease(job);
  job.signal(SIGSTOP);
  ::kill(agent, SIGSTOP);
  REQUIRE(job.warns("the agent (pid " + std::to_string(agent) + ") is stopped or hung"));
  CHECK(kill_all_below(agent, Duration{}).left.empty());
  ::kill(agent, SIGCONT);
  CHECK(job.nothing_is_left());
}

TEST_CASE("guard: with a lease, Ctrl-Z stops it until it is continued", "[slow]") {
  JobProbe job({.argv = mini_job(
                    {"--lease", "200", "1", kPuppet, "handle", "USR1", "say", "ready", "wait"})});
  REQUIRE(job.says("ready"));
  job.signal(SIGTSTP);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(job.pid()), &info, WSTOPPED) == 0);
  // A timer that continued it would do so every 25 ms.
  JobProbe later({.argv = {kPuppet, "sleep", "300"}});
  CHECK(later.exit_code() == 0);
  const auto row = read_process(job.pid());
  REQUIRE(row);
  CHECK(row->state == 'T');
  job.signal(SIGCONT);
  CHECK(job.says("notice " + std::to_string(SIGCONT)));
  job.signal(SIGUSR1);
  CHECK(job.exit_code() == 0);
}

TEST_CASE("guard: without its own /proc it kills no foreign process and leaves none of its own") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root to unmount /proc");
    return;
  }
#ifdef __SANITIZE_ADDRESS__  // LeakSanitizer itself uses /proc when a program exits
  const bool foreign = GENERATE(true);
#else
  const bool foreign = GENERATE(true, false);
#endif
  // The worker kills the agent. Remaining processes are then searched for by pid, in a PID
  // namespace.
  const std::string job_and_look =
      "\"$@\"; code=$?; for pid in $(seq 3 40); do kill -0 $pid 2>&- && echo left $pid; done; "
      "exit $code";
  const std::string without = foreign ? job_and_look : "umount -l /proc; " + job_and_look;
  auto argv = std::vector<std::string>{"/usr/bin/unshare",
                                       "--mount",
                                       "--pid",
                                       "--fork",
                                       "/bin/sh",
                                       "-c",
                                       without,
                                       "sh",
                                       kMiniJob,
                                       "--quiet",
                                       "1",
                                       "/bin/sh",
                                       "-c",
                                       "\"$0\" daemon { fork-setsid { wait } wait }; kill -9 $PPID",
                                       kPuppet};
  JobProbe job({.argv = argv});
  CHECK(job.exit_code() == 128 + SIGKILL);
  CHECK(job.nothing_is_left());
  CHECK(job.out().empty());
  CHECK(job.err().find("by SIGKILL; all its workers were killed\n") != std::string::npos);
}
