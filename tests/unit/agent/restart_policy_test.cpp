// SPDX-License-Identifier: Apache-2.0
#include "agent/restart_policy.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

WorkerFailure exited(int code) {
  WorkerFailure failure;
  failure.status = ExitStatus{false, code};
  return failure;
}

}  // namespace

TEST_CASE("restart policy: without restarts asked for it gives up without words") {
  RestartPolicy policy(0);
  CHECK(policy.decide(exited(1), 10s) == RestartDecision{});
}

TEST_CASE("restart policy: the budget is the number of restarts") {
  RestartPolicy policy(2);
  CHECK(policy.decide(exited(1), 10s).restart);
  CHECK(policy.decide(exited(1), 10s).restart);
  CHECK(policy.restarts() == 2);
  const auto last = policy.decide(exited(1), 10s);
  CHECK_FALSE(last.restart);
  CHECK(last.reason == "all 2 restarts are used up");
}

TEST_CASE("restart policy: three start-up failures in a row with the same end say so and stop") {
  RestartPolicy policy(10);
  CHECK(policy.decide(exited(1), 100ms).restart);
  CHECK(policy.decide(exited(1), 4s).restart);
  const auto third = policy.decide(exited(1), 1s);
  CHECK_FALSE(third.restart);
  CHECK(third.reason.find("fails at start-up every time") == 0);
}

TEST_CASE("restart policy: a long attempt or another end begins the count anew") {
  RestartPolicy policy(10);
  CHECK(policy.decide(exited(1), 1s).restart);
  CHECK(policy.decide(exited(1), 1s).restart);
  CHECK(policy.decide(exited(1), 5s).restart);  // ran long enough
  CHECK(policy.decide(exited(1), 1s).restart);
  CHECK(policy.decide(exited(1), 1s).restart);
  CHECK(policy.decide(exited(2), 1s).restart);  // ended in another way
  CHECK(policy.decide(exited(2), 1s).restart);
  CHECK_FALSE(policy.decide(exited(2), 1s).restart);
}

TEST_CASE("restart policy: what cannot be executed is not tried again, a full machine is") {
  WorkerFailure missing;
  missing.spawn_error = Error{Errc::not_found, "x"};
  WorkerFailure full;
  full.spawn_error = Error{Errc::system, "clone: Resource temporarily unavailable"};
  CHECK_FALSE(RestartPolicy(3).decide(missing, 0s).restart);
  CHECK(RestartPolicy(3).decide(full, 0s).restart);
}
