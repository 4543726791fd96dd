// SPDX-License-Identifier: Apache-2.0
#include "process/run/end_queue.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <vector>

using namespace muster;

namespace {

constexpr TimePoint kNow{std::chrono::seconds(100)};

WorkerEnd exited(int local_rank, int code) {
  WorkerEnd end;
  end.exit.local_rank = local_rank;
  end.exit.status = ExitStatus{.signaled = false, .value = code};
  end.reaped = true;
  return end;
}

WorkerEnd killed(int local_rank, int signo) {
  WorkerEnd end = exited(local_rank, signo);
  end.exit.status.signaled = true;
  return end;
}

WorkerEnd dying(WorkerEnd end) {
  end.reaped = false;
  return end;
}

std::vector<int> ranks_of(const std::vector<WorkerEnd>& ends) {
  std::vector<int> out;
  for (const WorkerEnd& end : ends) {
    out.push_back(end.exit.local_rank);
  }
  return out;
}

using Ranks = std::vector<int>;

}  // namespace

TEST_CASE("end queue: first failures are sorted: deaths by signal first, dying before reaped") {
  EndQueue queue;
  queue.add(exited(0, 0));
  queue.add(exited(1, 9));
  queue.add(killed(2, SIGABRT));  // PyTorch's reaction to a lost peer
  queue.add(killed(3, SIGSEGV));
  queue.add(dying(exited(4, 1)));
  queue.add(dying(killed(5, SIGKILL)));
  queue.add(killed(6, SIGPIPE));
  CHECK(queue.needs_look());
  CHECK(ranks_of(queue.take(kNow, false)) == Ranks{5, 3, 4, 1, 2, 6, 0});
  CHECK_FALSE(queue.needs_look());
}

TEST_CASE("end queue: after an attempt's first failure the order is that of arrival") {
  EndQueue queue;
  queue.add(exited(0, 9));
  CHECK(ranks_of(queue.take(kNow, false)) == Ranks{0});
  queue.add(exited(1, 9));
  queue.add(dying(killed(2, SIGKILL)));
  CHECK_FALSE(queue.needs_look());
  CHECK(ranks_of(queue.take(kNow, true)) == Ranks{1, 2});
  queue.begin_attempt();
  queue.add(exited(1, 9));
  queue.add(dying(killed(2, SIGKILL)));
  CHECK(ranks_of(queue.take(kNow, false)) == Ranks{2, 1});
}

TEST_CASE("end queue: the first failure waits a limited time for a worker with an unknown status") {
  EndQueue queue;
  queue.add(exited(0, 9));
  CHECK(queue.take(kNow, true).empty());
  CHECK(queue.held_until() == kNow + kUnknownEndTime);
  CHECK(queue.take(kNow + std::chrono::seconds(1), true).empty());
  CHECK(queue.held_until() == kNow + kUnknownEndTime);  // counted from the first check
  SECTION("it is reaped, and began to exit earlier") {
    WorkerEnd late = exited(1, 3);
    late.seen_ending = true;
    queue.add(late);
    CHECK(ranks_of(queue.take(kNow + std::chrono::seconds(1), false)) == Ranks{1, 0});
  }
  SECTION("it is reaped, and did not fail") {
    queue.add(exited(1, 0));
    CHECK(ranks_of(queue.take(kNow + std::chrono::seconds(1), false)) == Ranks{0, 1});
  }
  SECTION("the time limit passes") {
    CHECK(ranks_of(queue.take(kNow + kUnknownEndTime, true)) == Ranks{0});
  }
  CHECK_FALSE(queue.held_until());
  CHECK(queue.take(kNow + std::chrono::seconds(9), true).empty());
}

TEST_CASE("end queue: workers that exit with 0 do not wait") {
  EndQueue queue;
  queue.add(exited(1, 0));
  CHECK_FALSE(queue.needs_look());
  CHECK(ranks_of(queue.take(kNow, true)) == Ranks{1});
}
