// SPDX-License-Identifier: Apache-2.0
// Arguments that this room never receives: a call that would signal a foreign process, or all
// processes on the machine, aborts the program instead.
#include "process/guard/lease_timer.hpp"
#include "process/loop/poller.hpp"
#include "process/run/worker_table.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/exit_status.hpp"
#include "support/aborts.hpp"

using namespace muster;
using testing::abort_message;

namespace {

bool aborts(const std::function<void()>& call) {
  return abort_message(call).find(" is false at ") != std::string::npos;
}

class NoWatcher final : public Watcher {
 public:
  void on_ready() override {}
};

}  // namespace

// kill(-1) signals everything on the machine; kill(0) and kill(-0) signal our own group.
TEST_CASE("boundaries: a worker has its own pid and a local rank") {
  for (const pid_t pid : {-1, 0, 1}) {
    CHECK(aborts([&] { WorkerTable().add(pid, 0); }));
  }
  CHECK(aborts([] { WorkerTable().add(100, -1); }));
  CHECK(aborts([] {
    WorkerTable table;
    table.add(100, 0);
    table.add(100, 1);
  }));
}

// Without the checks these calls would not kill anything, either, because may_kill forbids it.
TEST_CASE("boundaries: kill_all_below needs a valid process and a valid time limit") {
  const auto never = [] { return false; };
  CHECK(aborts([&] { static_cast<void>(kill_all_below(0, Duration::zero(), never)); }));
  CHECK(aborts(
      [&] { static_cast<void>(kill_all_below(::getpid(), std::chrono::seconds(-1), never)); }));
}

TEST_CASE("boundaries: an exit status is one that waitid() reports") {
  CHECK(aborts([] { static_cast<void>(ExitStatus::from_wait(CLD_STOPPED, SIGSTOP)); }));
  CHECK(aborts([] { static_cast<void>(ExitStatus::from_wait(CLD_KILLED, 0)); }));
  CHECK(aborts([] { static_cast<void>(ExitStatus::from_wait(CLD_EXITED, 256)); }));
}

TEST_CASE("boundaries: a lease is positive, a descriptor is open") {
  CHECK(aborts([] { static_cast<void>(LeaseTimer::make(Duration::zero())); }));
  CHECK(aborts([] {
    NoWatcher watcher;
    static_cast<void>(Poller::open()->watch_input(-1, watcher));
  }));
}
