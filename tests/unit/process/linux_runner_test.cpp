// SPDX-License-Identifier: Apache-2.0
#include "process/run/linux_runner.hpp"

#include "job_probe.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/memory.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <csignal>
#include <functional>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

// A runner in this process, and its notifications.
class Stage final : public ProcessObserver {
 public:
  Stage() : deadline_(io_) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    runner_ = std::move(*LinuxRunner::open(io_, *this));
  }

  LinuxRunner& runner() { return *runner_; }

  pid_t spawn(int local_rank, std::vector<std::string> args, const OutputPlan& out = {}) {
    ProcessSpec spec;
    spec.local_rank = local_rank;
    spec.argv = {program};
    spec.argv.insert(spec.argv.end(), args.begin(), args.end());
    spec.standard_output = out;
    const auto pid = runner_->spawn(spec);
    REQUIRE(pid);
    return *pid;
  }

  // Runs the loop until `done` is true; false at the deadline.
  bool runs_until(const std::function<bool()>& done) {
    // The handler shares it, because a cancelled timer runs its handler only in the next call.
    const auto late = std::make_shared<bool>(false);
    deadline_.expires_after(std::chrono::seconds(30));
    deadline_.async_wait([late](const std::error_code& error) { *late = !error; });
    while (!done() && !*late) {
      io_.run_one();
    }
    deadline_.cancel();
    return !*late;
  }

  std::string program = kPuppet;

  bool ends_all() {
    runner_->kill_everything();
    return runs_until([&] { return nothing_left == 1; });
  }

  void on_worker_exit(const WorkerExit& exit) override {
    CHECK_FALSE(inside_call);
    exits.push_back(exit);
  }

  void on_worker_dying(const WorkerExit& exit) override {
    CHECK_FALSE(inside_call);
    dying.push_back(exit);
    exits_at_dying = exits.size();
  }

  void on_groups_empty() override {
    CHECK_FALSE(inside_call);
    ++groups_empty;
    exits_at_empty = exits.size();
  }

  void on_nothing_left() override {
    CHECK_FALSE(inside_call);
    ++nothing_left;
  }

  bool inside_call = false;
  std::vector<WorkerExit> exits;
  std::vector<WorkerExit> dying;
  std::size_t exits_at_dying = 0;
  std::size_t exits_at_empty = 0;
  int groups_empty = 0;
  int nothing_left = 0;

 private:
  asio::io_context io_{1};
  asio::steady_timer deadline_;
  std::unique_ptr<LinuxRunner> runner_;
};

OutputPlan to_file(const std::string& path) {
  OutputPlan plan;
  plan.kind = OutputKind::file;
  plan.path = path;
  return plan;
}

constexpr uid_t kNobody = 65534;

// Waits until a worker has written the file, using a second worker that waits for it.
void wait_for_file(Stage& stage, const std::string& path) {
  const auto before = stage.exits.size();
  stage.spawn(99, {"wait-file", path});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() > before; }));
}

}  // namespace

TEST_CASE(
    "linux runner: reports exits with rank and status, and empty groups once after the last") {
  Stage stage;
  const pid_t first = stage.spawn(0, {"exit", "7"});
  stage.spawn(1, {"signal", std::to_string(SIGSEGV)});
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(stage.exits_at_empty == 2);
  for (const auto& exit : stage.exits) {
    CHECK(exit.status.shell_code() == (exit.local_rank == 0 ? 7 : 128 + SIGSEGV));
    CHECK((exit.pid == first) == (exit.local_rank == 0));
  }
  stage.spawn(0, {"exit", "0"});
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 2; }));
}

TEST_CASE("linux runner: reports all 256 exit codes and all fatal signals unchanged", "[slow]") {
  Stage stage;
  for (int code = 0; code < 256; ++code) {
    stage.spawn(code, {"exit", std::to_string(code)});
  }
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 256; }));
  for (const auto& exit : stage.exits) {
    CHECK(exit.status == ExitStatus{.signaled = false, .value = exit.local_rank});
  }
  stage.exits.clear();
  const std::vector<int> deadly = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                   13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34};
  for (const int signo : deadly) {
    stage.spawn(signo, {"signal", std::to_string(signo)});
  }
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == deadly.size(); }));
  for (const auto& exit : stage.exits) {
    CHECK(exit.status.signaled);
    CHECK(exit.status.value == exit.local_rank);
  }
}

namespace {

// The kernel needs about 30 ms to free this memory, whereas a small process disappears in less than
// 1 ms.
constexpr const char* kManyMiB = "300";

// Rank 1 holds memory. Rank 0 kills it and immediately exits with 9.
struct Killing {
  Stage stage;
  TempDir folder;
  pid_t large = 0;
  pid_t killer = 0;

  Killing() {
    const std::string ready = folder.path() + "/ready";
    large =
        stage.spawn(1, {"die-from-memory", kManyMiB, "touch", ready, "wait"}, to_file("/dev/null"));
    wait_for_file(stage, ready);
    stage.exits.clear();
    const std::string armed = folder.path() + "/armed";
    killer = stage.spawn(
        0, {"handle", "USR1", "touch", armed, "wait", "kill", std::to_string(large), "exit", "9"});
    wait_for_file(stage, armed);
    stage.exits.clear();
  }
};

}  // namespace

TEST_CASE("linux runner: reports a slowly dying worker before one that exits because of it") {
  Killing job;
  ::kill(job.killer, SIGUSR1);
  REQUIRE(job.stage.runs_until([&] { return job.stage.exits.size() == 2; }));
  if (job.stage.dying.empty()) {
    // On a busy machine, the kernel has freed the memory before the runner checks.
    CHECK(job.stage.exits[0].pid == job.large);
    return;
  }
  REQUIRE(job.stage.dying.size() == 1);
  CHECK(job.stage.dying[0].pid == job.large);
  CHECK(job.stage.dying[0].status == ExitStatus{.signaled = true, .value = SIGKILL});
  CHECK(job.stage.exits_at_dying == 0);
  CHECK(job.stage.exits[0].pid == job.killer);
}

TEST_CASE("linux runner: if the kernel hides a worker's status, the first failure waits for it") {
  if (::geteuid() != 0) {
    SUCCEED("skipped: needs root to run workers as another user");
    return;
  }
  Killing job;
  REQUIRE(::seteuid(kNobody) == 0);
  ::kill(job.killer, SIGUSR1);
  const bool ended = job.stage.runs_until([&] { return job.stage.exits.size() == 2; });
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(ended);
  CHECK(job.stage.dying.empty());
  CHECK(job.stage.exits[0].pid == job.large);
}

TEST_CASE("linux runner: calls observers from the loop only") {
  Stage stage;
  stage.inside_call = true;
  stage.spawn(0, {"exit", "1"});
  stage.runner().signal_groups(SIGTERM, GroupsOf::all_workers);
  stage.runner().kill_everything();
  stage.inside_call = false;
  CHECK(stage.runs_until([&] { return stage.nothing_left == 1; }));
  CHECK(stage.groups_empty == 1);
  stage.inside_call = true;
  stage.runner().kill_everything();  // nothing to kill, but the loop still notifies
  stage.inside_call = false;
  CHECK(stage.runs_until([&] { return stage.nothing_left == 2; }));
}

TEST_CASE("linux runner: a dead leader's group still gets signals and is waited for") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0,
              {"fork",
               "{",
               "handle",
               "TERM",
               "touch",
               dir.path() + "/up",
               "wait",
               "touch",
               dir.path() + "/told",
               "}",
               "wait-file",
               dir.path() + "/up",
               "exit",
               "3"});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  CHECK(stage.groups_empty == 0);
  stage.runner().signal_groups(SIGTERM, GroupsOf::all_workers);
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(::access((dir.path() + "/told").c_str(), F_OK) == 0);
}

TEST_CASE("linux runner: detects that the last member has left a group") {
  const TempDir dir;
  const auto left = dir.path() + "/left";
  Stage stage;
  stage.spawn(0,
              {"fork", "{", "wait-file", dir.path() + "/go", "setsid", "touch", left, "wait", "}"});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  CHECK(stage.groups_empty == 0);
  write_file(dir.path() + "/go", "");
  CHECK(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(stage.ends_all());
}

TEST_CASE("linux runner: signal_workers reaches main processes only") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0,
              {"handle",
               "USR1",
               "fork",
               "{",
               "ignore",
               "TERM",
               "wait",
               "}",
               "touch",
               dir.path() + "/up",
               "wait",
               "exit",
               "4"},
              to_file(dir.path() + "/out"));
  wait_for_file(stage, dir.path() + "/up");
  stage.runner().signal_workers(SIGUSR1);
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 2; }));
  CHECK(stage.exits[1].status.value == 4);
  CHECK(read_file(dir.path() + "/out") == "got USR1\n");  // not twice
  CHECK(stage.ends_all());
}

TEST_CASE("linux runner: a stopped worker is continued so that it can handle a signal") {
  Stage stage;
  const pid_t pid = stage.spawn(0, {"stop", "wait"});
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED) == 0);
  stage.runner().signal_groups(SIGTERM, GroupsOf::all_workers);
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(stage.exits[0].status.shell_code() == 128 + SIGTERM);
}

TEST_CASE("linux runner: kill_everything finds processes that left their group and session") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0,
              {"daemon",
               "{",
               "ignore",
               "TERM",
               "fork-setsid",
               "{",
               "touch",
               dir.path() + "/up",
               "wait",
               "}",
               "wait",
               "}",
               "wait-file",
               dir.path() + "/up"});
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(stage.runner().survivors().size() == 2);
  CHECK(stage.ends_all());
  CHECK(stage.runner().survivors().empty());
}

TEST_CASE("linux runner: kill_workers spares helpers that ignore SIGTERM, and other sessions") {
  const TempDir dir;
  const auto go = dir.path() + "/go";
  Stage stage;
  stage.spawn(0,
              {"ignore",
               "TERM",
               "fork",
               "{",
               "wait-file",
               go,
               "touch",
               dir.path() + "/helped",
               "}",
               "fork-setsid",
               "{",
               "wait-file",
               go,
               "touch",
               dir.path() + "/finished",
               "}",
               "touch",
               dir.path() + "/forked",
               "wait"});
  stage.spawn(1, {"fork", "{", "wait", "}", "touch", dir.path() + "/up", "wait"});
  wait_for_file(stage, dir.path() + "/up");
  wait_for_file(stage, dir.path() + "/forked");
  CHECK(stage.runner().leftovers().size() == 5);
  CHECK_FALSE(stage.runner().look_at_leftovers().only_deaf);
  stage.runner().kill_workers();
  std::size_t killed = 0;
  // A child whose parent was just killed may be found only in the next pass.
  REQUIRE(stage.runs_until([&] { return (killed += stage.runner().take_killed().size()) == 3; }));
  REQUIRE(stage.runs_until([&] { return stage.runner().leftovers().size() == 2; }));
  // One pass may miss a process whose parent was just killed, or find one that is already being
  // killed.
  REQUIRE(stage.runs_until([&] { return stage.runner().look_at_leftovers().only_deaf; }));
  // The spared helper does not delay the notification about its group.
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(stage.nothing_left == 0);
  write_file(go, "");
  REQUIRE(stage.runs_until([&] { return stage.nothing_left == 1; }));
  CHECK(::access((dir.path() + "/helped").c_str(), F_OK) == 0);
  CHECK(::access((dir.path() + "/finished").c_str(), F_OK) == 0);
}

TEST_CASE("linux runner: PyTorch's torch_shm_manager is recognized by its name") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0, {"wait"});
  CHECK_FALSE(stage.runner().look_at_leftovers().shm_manager);
  stage.program = dir.path() + "/torch_shm_manager";
  REQUIRE(::symlink(kPuppet.c_str(), stage.program.c_str()) == 0);
  stage.spawn(1, {"wait"});
  CHECK(stage.runner().look_at_leftovers().shm_manager);
  CHECK(stage.ends_all());
}

TEST_CASE(
    "linux runner: reports all processes that kill_everything kills, also in workers' groups") {
  const TempDir dir;
  Stage stage;
  std::vector<std::string> family;
  for (int i = 0; i < 20; ++i) {
    family.insert(family.end(), {"fork", "{", "wait", "}"});
  }
  family.insert(family.end(), {"touch", dir.path() + "/up", "wait"});
  stage.spawn(0, family);
  wait_for_file(stage, dir.path() + "/up");
  REQUIRE(stage.runs_until([&] { return stage.runner().leftovers().size() == 21; }));
  CHECK(stage.ends_all());
  CHECK(stage.runner().take_killed().size() == 21);
}

TEST_CASE("linux runner: signals leftovers once, and spares processes that their handlers start") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0,
              {"daemon",
               "{",
               "handle",
               "TERM",
               "touch",
               dir.path() + "/up",
               "wait",
               "fork",
               "{",
               "wait-file",
               dir.path() + "/go",
               "touch",
               dir.path() + "/saved",
               "}",
               "}",
               "wait-file",
               dir.path() + "/up"});
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  stage.runner().await_nothing_left();
  const auto asked = stage.runner().ask_leftovers();
  REQUIRE(asked.size() == 1);
  CHECK(asked.front().command == "muster-puppet");
  write_file(dir.path() + "/go", "");
  REQUIRE(stage.runs_until([&] { return stage.nothing_left == 1; }));
  CHECK(::access((dir.path() + "/saved").c_str(), F_OK) == 0);
  CHECK(stage.runner().take_killed().empty());
}

TEST_CASE("linux runner: nothing is left if only the zygote remains") {
  // A shell instead of Python: it reports that it is ready, and waits for the next request.
  struct Observer final : ZygoteObserver {
    void on_zygote_ready() override { ready = true; }

    void on_zygote_replaced(const std::string& why) override { FAIL(why); }

    void on_zygote_lost(const std::string& why) override { FAIL(why); }

    void on_unknown_module(const std::string& what) override { FAIL(what); }

    bool ready = false;
  } zygote;

  Stage stage;
  ProcessSpec spec;
  spec.argv = {"sh", "-c", "dd bs=64 count=1 of=/dev/null 2>/dev/null; printf ready >&0; exec cat"};
  spec.environment = {"PATH=/usr/bin:/bin"};
  stage.runner().prepare_zygote(spec, zygote);
  REQUIRE(stage.runs_until([&] { return zygote.ready; }));
  const auto own = children_of(::getpid());
  REQUIRE(own.size() == 1);
  stage.spawn(0, {"daemon", "{", "ignore", "TERM", "wait", "}", "wait"});
  CHECK(stage.ends_all());
  // Not only killed but also reaped by the time of the notification.
  CHECK(children_of(::getpid()) == own);
}

TEST_CASE("linux runner: a SIGKILL from us or another process does not count as out of memory") {
  Stage stage;
  const pid_t pid = stage.spawn(0, {"wait"});
  ::kill(pid, SIGKILL);
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  CHECK_FALSE(stage.exits[0].out_of_memory);
}

TEST_CASE("linux runner: a failed spawn leaves the runner usable") {
  Stage stage;
  ProcessSpec spec;
  spec.argv = {"./no-such-train"};
  const auto refused = stage.runner().spawn(spec);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::not_found);
  spec.argv = {kPuppet};
  spec.standard_output = to_file("/proc/nowhere/out.log");
  const auto no_file = stage.runner().spawn(spec);
  REQUIRE_FALSE(no_file);
  CHECK(no_file.error().message.find("/proc/nowhere/out.log") != std::string::npos);
  stage.spawn(0, {"exit", "0"});
  CHECK(stage.runs_until([&] { return stage.groups_empty == 1; }));
}

TEST_CASE("linux runner: standard input is empty") {
  const TempDir dir;
  Stage stage;
  stage.spawn(0, {"stdin"}, to_file(dir.path() + "/a/b/out"));
  REQUIRE(stage.runs_until([&] { return stage.groups_empty == 1; }));
  CHECK(read_file(dir.path() + "/a/b/out") == "read 0\n");
}

namespace {

// A memory cgroup of 64 MiB without swap, version 1 or 2; none if we may not create one.
class SmallMemoryGroup {
 public:
  SmallMemoryGroup() {
    const auto parent = own_memory_group();
    const auto folder = parent + "/muster-test-" + std::to_string(::getpid());
    if (parent.empty() || ::mkdir(folder.c_str(), 0755) != 0) {
      return;
    }
    folder_ = folder;
    const auto limit = std::to_string(64 << 20);
    usable_ = set("memory.max", limit) || set("memory.limit_in_bytes", limit);
    static_cast<void>(set("memory.swap.max", "0") || set("memory.memsw.limit_in_bytes", limit));
  }

  ~SmallMemoryGroup() {
    if (!folder_.empty()) {
      ::rmdir(folder_.c_str());
    }
  }

  SmallMemoryGroup(const SmallMemoryGroup&) = delete;
  SmallMemoryGroup& operator=(const SmallMemoryGroup&) = delete;

  [[nodiscard]] bool usable() const { return usable_; }

  // Moves the calling process into the cgroup.
  [[nodiscard]] bool enter() const { return set("cgroup.procs", "0"); }

 private:
  [[nodiscard]] bool set(const std::string& file, const std::string& value) const {
    const UniqueFd fd(::open((folder_ + "/" + file).c_str(), O_WRONLY | O_CLOEXEC));
    return fd && ::write(fd.get(), value.data(), value.size()) > 0;
  }

  std::string folder_;
  bool usable_ = false;
};

}  // namespace

TEST_CASE(
    "linux runner: reports limit and peak for a worker that the kernel killed for its memory") {
  const SmallMemoryGroup group;
  if (!group.usable()) {
    WARN("skipped: cannot create a memory cgroup");
    return;
  }
  JobProbe job(
      {.argv = mini_job({"1", kPuppet, "daemon", "{", "wait", "}", "die-from-memory", "200"}),
       .in_child = [&] {
         if (!group.enter()) {
           std::_Exit(95);
         }
       }});
  CHECK(job.says("out of memory: limit 64 MiB, peak 6"));
  CHECK(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);
}
