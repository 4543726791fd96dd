// SPDX-License-Identifier: Apache-2.0
// Breaks each rule of the supervisor core once, on its own. The check must name the rule.
#include "agent/supervisor/supervisor_invariants.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>

using namespace muster;

namespace {

using State = SupervisorState;

WorkerFailure failed(int local_rank) {
  WorkerFailure failure;
  failure.local_rank = local_rank;
  failure.attempt = 1;
  failure.status = ExitStatus{false, 1};
  return failure;
}

// The second attempt, with three live workers.
SupervisorFacts running() {
  SupervisorFacts facts;
  facts.state = State::running;
  facts.attempt_open = true;
  facts.starts = 2;
  facts.spawned = 3;
  facts.live = {0, 1, 2};
  facts.result.nproc = 3;
  facts.result.attempt = 1;
  facts.result.max_restarts = 2;
  return facts;
}

// Worker 0 has failed; its peers are being stopped.
SupervisorFacts stopping() {
  SupervisorFacts facts = running();
  facts.state = State::stopping;
  facts.why = StopReason::regroup;
  facts.has_deadline = true;
  facts.live = {1, 2};
  facts.result.failures = {failed(0)};
  return facts;
}

// Worker 0 has died and will be replaced.
SupervisorFacts mending() {
  SupervisorFacts facts = running();
  facts.state = State::mending;
  facts.has_deadline = true;
  facts.live = {1, 2};
  facts.holders = {1, 2};
  facts.missing = {0};
  return facts;
}

SupervisorFacts finishing() {
  SupervisorFacts facts = running();
  facts.state = State::killing;
  facts.why = StopReason::finished;
  facts.has_deadline = true;
  facts.live.clear();
  return facts;
}

SupervisorFacts joining() {
  SupervisorFacts facts = running();
  facts.state = State::joining;
  facts.attempt_open = false;
  facts.spawned = 0;
  facts.live.clear();
  return facts;
}

SupervisorFacts waiting() {
  SupervisorFacts facts = finishing();
  facts.state = State::waiting;
  facts.has_deadline = false;
  return facts;
}

struct Break {
  std::string rule;
  SupervisorFacts facts;
  std::function<void(SupervisorFacts&)> how;
};

std::vector<Break> breaks() {
  return {
      {"more workers spawned than the round has", running(), [](auto& f) { f.spawned = 4; }},
      {"more live workers than were spawned", running(), [](auto& f) { f.spawned = 2; }},
      {"a live worker was not spawned",
       stopping(),
       [](auto& f) {
         f.live = {1, 7};
       }},
      {"a dying worker is not among the live ones", stopping(), [](auto& f) { f.dying = {0}; }},
      {"the early failure does not belong to a dying worker",
       stopping(),
       [](auto& f) { f.early = 0; }},
      {"the early failure is not recorded",
       stopping(),
       [](auto& f) {
         f.dying = {1};
         f.early = 1;
       }},
      {"a live worker has failed",
       stopping(),
       [](auto& f) { f.result.failures.push_back(failed(1)); }},
      {"a worker has failed twice in one attempt",
       stopping(),
       [](auto& f) { f.result.failures.push_back(failed(0)); }},
      {"a failure belongs to no worker on this node",
       stopping(),
       [](auto& f) { f.result.failures.front().attempt = 0; }},
      {"an overdue worker is not on this node",
       stopping(),
       [](auto& f) { f.result.overdue = {3}; }},
      {"joining with workers, failures or an open attempt",
       joining(),
       [](auto& f) { f.attempt_open = true; }},
      {"a running attempt was not opened", running(), [](auto& f) { f.attempt_open = false; }},
      {"running without a live worker", running(), [](auto& f) { f.live.clear(); }},
      {"running without a live worker",
       running(),
       [](auto& f) {
         f.live.clear();
         f.has_deadline = true;
         f.result.failures = {failed(0)};
         f.result.failures.front().lost_connection = true;
       }},
      {"running with a failure that does not wait for those of other workers",
       running(),
       [](auto& f) {
         f.live = {1, 2};
         f.has_deadline = true;
         f.result.failures = {failed(0)};
       }},
      {"a deadline is missing or unexpected", stopping(), [](auto& f) { f.has_deadline = false; }},
      {"stopping or waiting without a reason, or a reason in another state",
       stopping(),
       [](auto& f) { f.why = StopReason::nothing; }},
      {"waiting, but neither finished nor leaving",
       waiting(),
       [](auto& f) { f.why = StopReason::give_up; }},
      {"finished with failures or live workers",
       stopping(),
       [](auto& f) { f.why = StopReason::finished; }},
      {"interrupted without a signal",
       stopping(),
       [](auto& f) { f.why = StopReason::interrupted; }},
      {"closed without RoundClosed from the round source",
       stopping(),
       [](auto& f) { f.why = StopReason::closed; }},
  };
}

std::vector<Break> mend_breaks() {
  return {
      {"mending, although no rank has the job's state",
       mending(),
       [](auto& f) { f.holders.clear(); }},
      {"a worker that has the job's state is not running",
       mending(),
       [](auto& f) { f.live = {1}; }},
      {"a worker to be replaced is running",
       mending(),
       [](auto& f) {
         f.missing = {0, 1};
       }},
  };
}

}  // namespace

TEST_CASE("supervisor invariants: hold for correct cores") {
  for (const SupervisorFacts& facts :
       {SupervisorFacts{}, running(), mending(), stopping(), finishing(), joining(), waiting()}) {
    CHECK(broken_invariant(facts).empty());
  }
}

TEST_CASE("supervisor invariants: each rule is checked") {
  auto all = breaks();
  std::ranges::move(mend_breaks(), std::back_inserter(all));
  for (Break broken : all) {
    INFO(broken.rule);
    broken.how(broken.facts);
    CHECK(broken_invariant(broken.facts) == broken.rule);
  }
}
