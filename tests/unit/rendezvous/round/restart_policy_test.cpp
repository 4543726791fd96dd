// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_policy.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

Failed exited(int code, Duration run_time) {
  Failed failed;
  failed.exit_code = code;
  failed.run_time = run_time;
  failed.exited = true;
  return failed;
}

Failed killed(Duration run_time) {
  Failed failed = exited(137, run_time);
  failed.exited = false;
  return failed;
}

RestartPolicy policy_with(int max_restarts, int quick_failures = kQuickFailures) {
  return RestartPolicy(RestartLimits{max_restarts, quick_failures});
}

}  // namespace

TEST_CASE("restart policy: without requested restarts it gives up without a reason") {
  RestartPolicy policy = policy_with(0);
  CHECK(policy.decide(exited(1, 10s)) == RestartDecision{});
}

TEST_CASE("restart policy: the budget is the number of restarts") {
  RestartPolicy policy = policy_with(2);
  CHECK(policy.decide(exited(1, 10s)).restart);
  CHECK(policy.decide(exited(1, 10s)).restart);
  CHECK(policy.restarts() == 2);
  const auto last = policy.decide(exited(1, 10s));
  CHECK_FALSE(last.restart);
  CHECK(last.reason == "all 2 restarts are used up");
}

TEST_CASE(
    "restart policy: three quick failures in a row with the same code stop the job with a reason") {
  RestartPolicy policy = policy_with(10);
  CHECK(policy.decide(exited(1, 100ms)).restart);
  CHECK(policy.decide(exited(1, 4s)).restart);
  const auto third = policy.decide(exited(1, 1s));
  CHECK_FALSE(third.restart);
  CHECK(third.reason.find("fails at startup every time") == 0);
  CHECK(third.reason.find("--quick-failures=off") != std::string::npos);
}

TEST_CASE("restart policy: a different code resets the count of quick failures") {
  RestartPolicy policy = policy_with(10);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(2, 1s)).restart);
  CHECK(policy.decide(exited(2, 1s)).restart);
  CHECK_FALSE(policy.decide(exited(2, 1s)).restart);
}

TEST_CASE("restart policy: quick failures are equal if their exit codes are equal") {
  RestartPolicy policy = policy_with(10);
  for (const int pid : {71, 72, 73}) {
    Failed failed = exited(1, 1s);
    failed.rank = pid % 2;
    failed.text = "lost its process " + std::to_string(pid) + " (helper), exited with code 1";
    CHECK(policy.decide(failed).restart == (pid < 73));
  }
}

TEST_CASE("restart policy: deaths by signal use the budget but do not count as quick failures") {
  RestartPolicy policy = policy_with(100);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(policy.decide(killed(1ms)).restart);
  }
  CHECK(policy.decide(killed(1ms)).reason == "all 100 restarts are used up");
}

TEST_CASE("restart policy: a death by signal resets the count of quick failures") {
  RestartPolicy policy = policy_with(10);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(killed(1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK_FALSE(policy.decide(exited(1, 1s)).restart);
}

TEST_CASE(
    "restart policy: once an attempt has run past its start, quick failures never end the job") {
  RestartPolicy policy = policy_with(10);
  CHECK(policy.decide(exited(1, 5s)).restart);
  for (int i = 0; i < 9; ++i) {
    REQUIRE(policy.decide(exited(1, 1s)).restart);
  }
  CHECK(policy.decide(exited(1, 1s)).reason == "all 10 restarts are used up");
}

TEST_CASE("restart policy: --quick-failures sets the number, off uses the whole budget") {
  RestartPolicy one = policy_with(10, 1);
  CHECK_FALSE(one.decide(exited(1, 1s)).restart);
  RestartPolicy off = policy_with(10, 0);
  for (int i = 0; i < 10; ++i) {
    REQUIRE(off.decide(exited(1, 1s)).restart);
  }
  CHECK(off.decide(exited(1, 1s)).reason == "all 10 restarts are used up");
}

TEST_CASE("restart policy: does not retry an unexecutable program, but retries on a full machine") {
  const Failed full = killed(0s);
  Failed missing = full;
  missing.permanent = true;
  CHECK_FALSE(policy_with(3).decide(missing).restart);
  CHECK(policy_with(3).decide(full).restart);
}
