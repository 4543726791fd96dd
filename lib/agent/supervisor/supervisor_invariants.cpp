// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor/supervisor_invariants.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace muster {
namespace {

using Facts = SupervisorFacts;
using State = SupervisorState;

struct Rule {
  std::string_view text;
  bool (*holds)(const Facts&);
};

bool ends(const Facts& f) {
  return f.state == State::stopping || f.state == State::clearing || f.state == State::killing;
}

// After a lost connection, the other workers keep running for a moment.
bool holds_failures(const Facts& f) {
  return f.state == State::running && !f.result.failures.empty();
}

bool is_local(const Facts& f, int local_rank) {
  return local_rank >= 0 && local_rank < f.result.nproc;
}

// A dying worker's failure is completed when it is reaped (complete_early), and not recorded again.
bool no_rank_fails_twice(const Facts& f) {
  std::set<int> seen;
  return std::ranges::all_of(f.result.failures, [&](const WorkerFailure& failure) {
    return seen.insert(failure.local_rank).second;
  });
}

// A worker that was not reaped can have failed only if its death was detected early.
bool live_failures_are_early(const Facts& f) {
  return std::ranges::all_of(f.result.failures, [&](const WorkerFailure& failure) {
    return !f.live.contains(failure.local_rank) || f.early == failure.local_rank;
  });
}

bool early_is_recorded(const Facts& f) {
  return !f.early || std::ranges::any_of(f.result.failures, [&](const WorkerFailure& failure) {
    return failure.local_rank == *f.early;
  });
}

constexpr std::array<Rule, 24> kRules{{
    {"more workers spawned than the round has",
     [](const Facts& f) { return f.spawned >= 0 && f.spawned <= f.result.nproc; }},
    {"more live workers than were spawned",
     [](const Facts& f) { return static_cast<int>(f.live.size()) <= f.spawned; }},
    {"a live worker was not spawned",
     [](const Facts& f) {
       return std::ranges::all_of(f.live, [&](int rank) { return rank >= 0 && rank < f.spawned; });
     }},
    {"a dying worker is not among the live ones",
     [](const Facts& f) { return std::ranges::includes(f.live, f.dying); }},
    {"the early failure does not belong to a dying worker",
     [](const Facts& f) { return !f.early || f.dying.contains(*f.early); }},
    {"the early failure is not recorded", early_is_recorded},
    {"a live worker has failed", live_failures_are_early},
    {"a worker has failed twice in one attempt", no_rank_fails_twice},
    {"a failure belongs to no worker on this node",
     [](const Facts& f) {
       return std::ranges::all_of(f.result.failures, [&](const WorkerFailure& failure) {
         return is_local(f, failure.local_rank) && failure.attempt == f.result.attempt;
       });
     }},
    {"an overdue worker is not on this node",
     [](const Facts& f) {
       return std::ranges::all_of(f.result.overdue, [&](int rank) { return is_local(f, rank); });
     }},
    {"joining with workers, failures or an open attempt",
     [](const Facts& f) {
       return f.state != State::joining ||
              (f.live.empty() && f.spawned == 0 && f.result.failures.empty() && !f.attempt_open);
     }},
    {"a running attempt was not opened",
     [](const Facts& f) {
       return (f.state != State::running && f.state != State::mending && !ends(f)) ||
              (f.attempt_open && f.starts == f.result.attempt + 1);
     }},
    {"running without a live worker",
     [](const Facts& f) {
       // A failure may be held after the last local worker has exited, because its cause may be a
       // failure on another node or a scheduler's signal.
       const bool awaits_others = (f.others > 0 || f.awaits_signal) && holds_failures(f);
       return f.state != State::running || f.spawned < f.result.nproc || !f.live.empty() ||
              awaits_others;
     }},
    {"running with a failure that does not wait for those of other workers",
     [](const Facts& f) {
       return !holds_failures(f) || f.awaits_signal ||
              std::ranges::all_of(f.result.failures, [](const WorkerFailure& failure) {
                return failure.lost_connection || failure.startup_error;
              });
     }},
    {"a deadline is missing or unexpected",
     [](const Facts& f) {
       // Without a deadline, such a state could last forever, because there may be no further
       // event.
       const bool leaves = f.state == State::waiting && f.why == StopReason::interrupted;
       const bool limited = ends(f) || holds_failures(f) || leaves || f.state == State::mending;
       return limited == f.has_deadline;
     }},
    {"stopping or waiting without a reason, or a reason in another state",
     [](const Facts& f) {
       // go_on() acts on the reason, so a reason from another state must not remain.
       const bool reasoned = ends(f) || f.state == State::waiting;
       return f.state == State::done || reasoned == (f.why != StopReason::nothing);
     }},
    {"waiting, but neither finished nor leaving",
     [](const Facts& f) {
       return f.state != State::waiting || f.why == StopReason::finished ||
              f.why == StopReason::interrupted;
     }},
    {"finished with failures or live workers",
     [](const Facts& f) {
       return f.state == State::done || f.why != StopReason::finished ||
              (f.live.empty() && f.result.failures.empty());
     }},
    {"mending, although no rank has the job's state",
     [](const Facts& f) {
       return f.state != State::mending || f.others > 0 ||
              std::ranges::any_of(f.holders, [&](int rank) {
                return f.live.contains(rank) && !f.missing.contains(rank);
              });
     }},
    {"a worker that has the job's state is not running",
     [](const Facts& f) {
       return (f.state != State::running && f.state != State::mending) ||
              std::ranges::includes(f.live, f.holders);
     }},
    {"a worker to be replaced is running",
     [](const Facts& f) {
       return f.state != State::mending || std::ranges::all_of(f.missing, [&](int rank) {
                return !f.live.contains(rank) || f.dying.contains(rank);
              });
     }},
    {"interrupted without a signal",
     [](const Facts& f) {
       return f.why != StopReason::interrupted || f.result.interrupting_signal != 0 ||
              f.result.preemption;
     }},
    {"helpers are spared outside a kill",
     [](const Facts& f) { return !f.spares_helpers || f.state == State::killing; }},
    {"closed without RoundClosed from the round source",
     [](const Facts& f) { return f.why != StopReason::closed || f.closed; }},
}};

}  // namespace

std::string_view broken_invariant(const SupervisorFacts& facts) {
  for (const Rule& rule : kRules) {
    if (!rule.holds(facts)) {
      return rule.text;
    }
  }
  return {};
}

}  // namespace muster
