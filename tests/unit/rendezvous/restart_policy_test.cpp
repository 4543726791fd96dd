// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_policy.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

FailureFacts exited(int code, Duration run_time) {
  return {"exited with code " + std::to_string(code), false, run_time};
}

}  // namespace

TEST_CASE("restart policy: without restarts asked for it gives up without words") {
  RestartPolicy policy(0);
  CHECK(policy.decide(exited(1, 10s)) == RestartDecision{});
}

TEST_CASE("restart policy: the budget is the number of restarts") {
  RestartPolicy policy(2);
  CHECK(policy.decide(exited(1, 10s)).restart);
  CHECK(policy.decide(exited(1, 10s)).restart);
  CHECK(policy.restarts() == 2);
  const auto last = policy.decide(exited(1, 10s));
  CHECK_FALSE(last.restart);
  CHECK(last.reason == "all 2 restarts are used up");
}

TEST_CASE("restart policy: three start-up failures in a row with the same end say so and stop") {
  RestartPolicy policy(10);
  CHECK(policy.decide(exited(1, 100ms)).restart);
  CHECK(policy.decide(exited(1, 4s)).restart);
  const auto third = policy.decide(exited(1, 1s));
  CHECK_FALSE(third.restart);
  CHECK(third.reason.find("fails at start-up every time") == 0);
}

TEST_CASE("restart policy: a long attempt or another end begins the count anew") {
  RestartPolicy policy(10);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 5s)).restart);  // ran long enough
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(1, 1s)).restart);
  CHECK(policy.decide(exited(2, 1s)).restart);  // ended in another way
  CHECK(policy.decide(exited(2, 1s)).restart);
  CHECK_FALSE(policy.decide(exited(2, 1s)).restart);
}

TEST_CASE("restart policy: what cannot be executed is not tried again, a full machine is") {
  const FailureFacts missing{"could not be started: no such file", true, 0s};
  const FailureFacts full{"could not be started: too many processes", false, 0s};
  CHECK_FALSE(RestartPolicy(3).decide(missing).restart);
  CHECK(RestartPolicy(3).decide(full).restart);
}
