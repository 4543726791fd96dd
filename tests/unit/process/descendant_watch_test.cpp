// SPDX-License-Identifier: Apache-2.0
// Real descendants of this process, which plays the agent: it is their subreaper.
#include "process/deaths/descendant_watch.hpp"

#include "job_probe.hpp"
#include "process/run/linux_runner.hpp"
#include "process/start/helper_process.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

class Stage final : public ProcessObserver, public DescendantObserver {
 public:
  Stage() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    LinuxRunnerSettings settings;
    settings.before_reaping = [this] { watch_.look_before_reaping(); };
    runner_ = std::move(*LinuxRunner::open(io_, *this, settings));
  }

  ~Stage() override {
    watch_.end();
    runner_->kill_everything();
    static_cast<void>(runs_until([&] { return nothing_left_; }));
  }

  // A worker with this rank that executes these words.
  pid_t spawn(int rank, std::vector<std::string> words) {
    ProcessSpec spec;
    spec.local_rank = rank;
    spec.argv = {kPuppet};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.environment = {"RANK=" + std::to_string(rank)};
    const auto pid = runner_->spawn(spec);
    REQUIRE(pid);
    watch_.add_worker(*pid, rank, rank);
    return *pid;
  }

  std::unique_ptr<HelperProcess> help(const HelperSpec& spec) {
    auto helper = HelperProcess::start(io_, spec, [](const std::string& /*output*/) {});
    REQUIRE(helper);
    return std::move(*helper);
  }

  bool runs_until(const std::function<bool()>& done) {
    // The handler shares it, because a cancelled timer runs its handler only in the next call.
    const auto late = std::make_shared<bool>(false);
    asio::steady_timer deadline(io_, 30s);
    deadline.async_wait([late](const std::error_code& error) { *late = !error; });
    while (!done() && !*late) {
      io_.run_one();
    }
    return !*late;
  }

  // Waits until this number of processes is watched.
  [[nodiscard]] bool watches(std::size_t count) {
    return runs_until([&] { return watch_.count() == count; });
  }

  void on_worker_exit(const WorkerExit& exit) override {
    watch_.drop_worker(exit.local_rank);
    exits.push_back(exit);
  }

  void on_groups_empty() override {}

  void on_nothing_left() override { nothing_left_ = true; }

  void on_descendant_failure(const DescendantEnd& end) override { failures.push_back(end); }

  void on_too_many_descendants() override {}

  std::vector<WorkerExit> exits;
  std::vector<DescendantEnd> failures;

 private:
  asio::io_context io_{1};
  DescendantWatch watch_{io_, *this};
  std::unique_ptr<LinuxRunner> runner_;
  bool nothing_left_ = false;
};

}  // namespace

TEST_CASE("descendant watch: this machine permits observing descendants") {
  CHECK(DescendantWatch::is_possible());
}

TEST_CASE("descendant watch: detects that a child in a separate session is killed") {
  Stage stage;
  const pid_t worker = stage.spawn(3, {"fork-setsid", "{", "wait", "}", "wait"});
  REQUIRE(stage.watches(1));
  const auto below = rows_below(worker, descendants());
  REQUIRE(below.size() == 1);
  ::kill(below.front().pid, SIGKILL);
  REQUIRE(stage.runs_until([&] { return !stage.failures.empty(); }));
  const DescendantEnd& end = stage.failures.front();
  CHECK(end.pid == below.front().pid);
  CHECK(end.local_rank == 3);
  CHECK(end.status == ExitStatus{true, SIGKILL});
  CHECK(end.command == "muster-puppet");
}

TEST_CASE("descendant watch: a daemon is an orphan, which we reap") {
  Stage stage;
  const TempDir folder;
  const std::string up = folder.path() + "/up";
  const pid_t worker =
      stage.spawn(5, {"daemon", "{", "touch", up, "wait", "}", "wait-file", up, "wait"});
  REQUIRE(stage.runs_until([&] { return std::filesystem::exists(up); }));
  REQUIRE(stage.watches(1));
  pid_t daemon = 0;
  for (const ProcessRow& row : descendants()) {
    daemon = row.parent == ::getpid() && row.pid != worker ? row.pid : daemon;
  }
  REQUIRE(daemon != 0);
  ::kill(daemon, SIGKILL);
  REQUIRE(stage.runs_until([&] { return !stage.failures.empty(); }));
  CHECK(stage.failures.front().local_rank == 5);
  CHECK(stage.failures.front().status == ExitStatus{true, SIGKILL});
}

TEST_CASE("descendant watch: a child that dies before the first poll still counts") {
  Stage stage;  // its parent does not reap it, so it stays a zombie
  stage.spawn(0, {"fork", "{", "signal", std::to_string(SIGKILL), "}", "wait"});
  REQUIRE(stage.runs_until([&] { return !stage.failures.empty(); }));
  CHECK(stage.failures.front().status.value == SIGKILL);
}

TEST_CASE("descendant watch: a child that succeeds or is asked to stop has not failed") {
  Stage stage;
  const TempDir folder;
  const std::string go = folder.path() + "/go";
  const pid_t worker = stage.spawn(0,
                                   {"fork",
                                    "{",
                                    "wait-file",
                                    go,
                                    "exit",
                                    "0",
                                    "}",  //
                                    "fork",
                                    "{",
                                    "wait-file",
                                    go,
                                    "exit",
                                    "1",
                                    "}",  //
                                    "fork",
                                    "{",
                                    "wait",
                                    "}",  //
                                    "wait"});
  REQUIRE(stage.watches(3));
  const auto rows = rows_below(worker, descendants());
  REQUIRE(rows.size() == 3);
  ::kill(rows.back().pid, SIGTERM);
  muster::testing::write_file(go, "");
  REQUIRE(stage.watches(0));
  stage.spawn(1, {"exit", "0"});  // an earlier notification would arrive first
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  CHECK(stage.failures.empty());
}

TEST_CASE("descendant watch: a worker that exits, too, is reported itself") {
  Stage stage;
  const pid_t worker = stage.spawn(0, {"fork", "{", "wait", "}", "wait"});
  REQUIRE(stage.watches(1));
  ::kill(-worker, SIGKILL);  // both
  REQUIRE(stage.runs_until([&] { return !stage.exits.empty(); }));
  stage.spawn(1, {"exit", "0"});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 2; }));
  CHECK(stage.failures.empty());
}

TEST_CASE("descendant watch: processes left by an exited worker do not count for another one") {
  Stage stage;
  const TempDir folder;
  const std::string go = folder.path() + "/go";
  const pid_t first = stage.spawn(1, {"fork", "{", "wait", "}", "wait-file", go, "exit", "0"});
  REQUIRE(stage.watches(1));
  const auto left = rows_below(first, descendants());
  REQUIRE(left.size() == 1);
  stage.spawn(0, {"wait"});
  muster::testing::write_file(go, "");
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  ::kill(left.front().pid, SIGKILL);
  stage.spawn(2, {"exit", "0"});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 2; }));
  REQUIRE(stage.runs_until([&] { return !read_process(left.front().pid); }));
  stage.spawn(3, {"exit", "0"});  // an earlier notification would arrive first
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 3; }));
  CHECK(stage.failures.empty());
}

TEST_CASE(
    "descendant watch: one of our helpers belongs to no worker, even if we have a RANK ourselves") {
  Stage stage;
  const TempDir folder;
  const std::string up = folder.path() + "/up";
  auto helper = stage.help({.argv = {kPuppet, "touch", up, "wait"},
                            .environment = {"RANK=0"},
                            .timeout = 1min,
                            .bytes_max = 1000});
  stage.spawn(0, {"wait-file", up, "fork", "{", "wait", "}", "wait"});
  REQUIRE(stage.watches(1));
  helper.reset();  // by SIGKILL
  stage.spawn(1, {"exit", "0"});
  REQUIRE(stage.runs_until([&] { return stage.exits.size() == 1; }));
  CHECK(stage.failures.empty());
}
