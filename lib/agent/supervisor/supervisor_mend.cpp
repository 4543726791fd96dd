// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore replaces failed workers while the others continue to run (a mend). The round,
// its store, ports and ranks stay the same; the workers continue under a new epoch. If a mend is
// not possible, all workers are restarted, and muster prints the reason.
#include "agent/failures/failure.hpp"
#include "agent/supervisor/supervisor_core.hpp"
#include "base/check.hpp"
#include "base/mark.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {
namespace {

WarnOfMend no_mend(const std::string& reason) {
  return {"cannot replace only failed ranks: " + reason};
}

// "recovery is waiting up to 30s for rank 2 (still in a step) and rank 1 (still starting)"
std::string describe_wait(const std::vector<int>& busy,
                          const std::vector<int>& starting,
                          Duration timeout) {
  const std::string out = fmt::format(
      "recovery is waiting up to {} for {} (still in a step)", describe(timeout), name_ranks(busy));
  return starting.empty() ? out : out + " and " + name_ranks(starting) + " (still starting)";
}

}  // namespace

// True if the worker has failed and has not been replaced yet.
bool SupervisorCore::is_lost(int local_rank) const {
  return mend_.missing.contains(local_rank) ||
         std::ranges::find(result_.failures, local_rank, &WorkerFailure::local_rank) !=
             result_.failures.end();
}

// True if another local worker has the job's state. A replacement that is still starting does not
// have it yet.
bool SupervisorCore::holds_state() const {
  return std::ranges::any_of(mend_.holders, [&](int local_rank) { return !is_lost(local_rank); });
}

// Empty if the failed workers can be replaced. A replacement receives the job's state from another
// worker, so each remaining worker must be able to survive a mend, and one of them must have the
// state. The round source knows whether a worker on another node has it.
std::string SupervisorCore::mend_obstacle() const {
  if (spawned_ < result_.nproc) {
    return "not all workers were started";
  }
  for (int local_rank = 0; local_rank < result_.nproc; ++local_rank) {
    if (is_lost(local_rank)) {
      continue;
    }
    const int rank = rank_first_ + local_rank;
    if (!live_.contains(local_rank)) {
      return fmt::format("rank {} has finished", rank);
    }
    if (mend_.left.contains(local_rank)) {
      return fmt::format("rank {} has left muster.elastic.run", rank);
    }
    if (!mend_.holders.contains(local_rank) && !mend_.unready.contains(local_rank)) {
      return fmt::format("rank {} has not entered muster.elastic.run", rank);
    }
  }
  return holds_state() || others_ > 0 ? "" : "no remaining rank has the job's state";
}

// False if all workers must be restarted.
bool SupervisorCore::ask_to_mend(Turn& turn) {
  if (std::string obstacle = mend_obstacle(); !obstacle.empty()) {
    MUSTER_MARK("a failed worker cannot be replaced on its own");
    mend_.end();
    turn.out.emplace_back(no_mend(obstacle));
    return false;
  }
  AskMend ask{++mend_.asked, {}, {}, holds_state()};
  ask.cause = result_.failures.at(root_cause(result_.failures, SIGTERM).value_or(0));
  ask.cause.run_time = std::max(times_.failed_at - times_.spawned_at, Duration::zero());
  for (const WorkerFailure& failure : result_.failures) {
    if (mend_.missing.insert(failure.local_rank).second) {
      turn.out.emplace_back(KillTree{failure.local_rank});
    }
    mend_.replaced.insert(failure.local_rank);
    mend_.holders.erase(failure.local_rank);
  }
  ask.local_ranks.assign(mend_.missing.begin(), mend_.missing.end());
  mend_.epoch.reset();
  awaits_signal_ = false;
  begin_mending(turn);
  turn.out.emplace_back(std::move(ask));
  return true;
}

void SupervisorCore::begin_mending(Turn& turn) {
  for (int local_rank = 0; local_rank < result_.nproc; ++local_rank) {
    mend_.unready.insert(local_rank);
  }
  state_ = SupervisorState::mending;
  restart_mend_clock(turn.now);
}

void SupervisorCore::restart_mend_clock(TimePoint now) {
  mend_.began = now;
  mend_.heard_by = now + kHeardTimeout;
  mend_.looked = false;
  deadline_ = mend_.deadline();
}

// The surviving workers that have not confirmed the loss. To work in the mend's epoch confirms it.
std::set<int> SupervisorCore::deaf() const {
  std::set<int> out;
  for (const int local_rank : mend_.holders) {
    if (mend_.unready.contains(local_rank) && !mend_.heard.contains(local_rank) &&
        live_.contains(local_rank) && !dying_.contains(local_rank) && !is_lost(local_rank)) {
      out.insert(local_rank);
    }
  }
  return out;
}

void SupervisorCore::note_mend_formed(Turn& turn) {
  const auto& formed = std::get<MendFormed>(turn.event);
  if (formed.number == 0) {
    join_mend(turn, formed.epoch);
  } else if (formed.number == mend_.asked) {
    mend_.epoch = formed.epoch;
    mend_.last = formed.last;
    start_replacements(turn);
  }
}

// Workers on other nodes are being replaced. A failure that is held here, because it may be the
// consequence of a failure there, now needs a replacement, too.
void SupervisorCore::join_mend(Turn& turn, std::uint64_t epoch) {
  if (state_ == SupervisorState::mending) {
    begin_mending(turn);
    if (mend_.epoch) {  // otherwise this node still waits for its own mend
      mend_.epoch = epoch;
    }
    return;
  }
  if (!result_.failures.empty()) {
    MUSTER_MARK("a mend of other nodes meets a failure that is held");
    decide_after_failure(turn);
    return;
  }
  if (std::string obstacle = mend_obstacle(); !obstacle.empty()) {
    MUSTER_MARK("a mend of other nodes meets an obstacle");
    fall_back(turn, std::move(obstacle));
    return;
  }
  MUSTER_MARK("workers on other nodes are replaced");
  times_.failed_at = turn.now;
  begin_mending(turn);
  mend_.epoch = epoch;
}

void SupervisorCore::note_mend_refused(Turn& turn) {
  const auto& refused = std::get<MendRefused>(turn.event);
  if (refused.number == mend_.asked) {
    MUSTER_MARK("the round source refuses a mend");
    mend_.end();
    if (!refused.reason.empty()) {
      turn.out.emplace_back(no_mend(refused.reason));
    }
    report_failures(turn);
    stop_workers(turn, Why::regroup, SIGTERM);
  }
}

// A replacement starts only after the failed workers were reaped, because they may hold devices and
// ports.
void SupervisorCore::start_replacements(Turn& turn) {
  const auto lives = [&](int local_rank) { return live_.contains(local_rank); };
  if (state_ != SupervisorState::mending || !mend_.epoch || mend_.missing.empty() ||
      std::ranges::any_of(mend_.missing, lives)) {
    return;
  }
  groups_empty_ = false;
  turn.out.emplace_back(CloseFailures{std::exchange(result_.failures, {})});
  turn.out.emplace_back(SpawnWorker{*mend_.missing.begin()});
}

void SupervisorCore::note_replaced(Turn& turn) {
  const auto& spawned = std::get<WorkerSpawned>(turn.event);
  MUSTER_CHECK(mend_.missing.erase(spawned.local_rank) == 1);
  MUSTER_CHECK(live_.emplace(spawned.local_rank, spawned.pid).second);
  times_.spawned_at = turn.now;
  if (!mend_.missing.empty()) {
    turn.out.emplace_back(SpawnWorker{*mend_.missing.begin()});
  }
}

void SupervisorCore::note_ready(Turn& turn) {
  const auto& ready = std::get<WorkerReady>(turn.event);
  mend_.arrived.erase(ready.local_rank);
  const bool is_news =
      live_.contains(ready.local_rank) && mend_.holders.insert(ready.local_rank).second;
  if (is_news && settings_.restart_by_rank && std::cmp_equal(mend_.holders.size(), result_.nproc)) {
    mend_.longest_pause = std::max(mend_.longest_pause, turn.now - times_.spawned_at);
    turn.out.emplace_back(TellReady{ready.epoch});
  }
}

void SupervisorCore::note_left(Turn& turn) {
  const int local_rank = std::get<WorkerLeft>(turn.event).local_rank;
  if (live_.contains(local_rank)) {
    mend_.holders.erase(local_rank);
    mend_.left.insert(local_rank);
  }
}

// The replacement would wait for this worker.
void SupervisorCore::end_left_mend(Turn& turn) {
  note_left(turn);
  if (std::string obstacle = mend_obstacle(); !obstacle.empty()) {
    fall_back(turn, std::move(obstacle));
  }
}

void SupervisorCore::note_resumed(Turn& turn) {
  const auto& ready = std::get<WorkerReady>(turn.event);
  if (ready.epoch != mend_.epoch || !live_.contains(ready.local_rank) ||
      is_lost(ready.local_rank)) {
    return;
  }
  mend_.holders.insert(ready.local_rank);
  mend_.unready.erase(ready.local_rank);
  mend_.arrived.erase(ready.local_rank);
  if (!mend_.unready.empty()) {
    return;
  }
  MUSTER_MARK("a mend is complete");
  TellMended mended{{mend_.replaced.begin(), mend_.replaced.end()}, turn.now - times_.failed_at};
  state_ = SupervisorState::running;
  deadline_.reset();
  mend_.end();
  turn.out.emplace_back(std::move(mended));
  turn.out.emplace_back(TellReady{ready.epoch});
}

// Survivors may hear of a loss while the failure is still held.
void SupervisorCore::note_heard(Turn& turn) {
  const auto& heard = std::get<WorkerHeard>(turn.event);
  (heard.arrived ? mend_.arrived : mend_.heard).insert(heard.local_rank);
  mend_.longest_pause = std::max(mend_.longest_pause, heard.longest_pause);
  if (state_ == SupervisorState::mending) {
    deadline_ = mend_.deadline();
  }
}

// If this process was stopped, too, the workers' answers may be unread.
void SupervisorCore::end_late_mend(Turn& turn) {
  if (end_preempted(turn) || turn.now < deadline_) {
    return;
  }
  if (mend_.suspended || turn.now > *deadline_ + kTickLateMax) {
    MUSTER_MARK("a mend is suspended");
    restart_mend_clock(turn.now);
    return;
  }
  if (!mend_.looked) {
    look_at_mend(turn);
    return;
  }
  MUSTER_MARK("a mend takes too long");
  const std::set<int> missed = mend_.late();
  const std::string who = !missed.empty() ? fmt::format("rank {}", rank_first_ + *missed.begin())
                          : others_ > 0   ? "a rank on another node"
                                          : "the ranks";
  fall_back(turn,
            fmt::format("{} did not resume within {}", who, muster::describe(mend_.timeout())));
}

void SupervisorCore::look_at_mend(Turn& turn) {
  mend_.looked = true;
  deadline_ = mend_.deadline();
  if (end_deaf(turn)) {
    return;
  }
  std::vector<int> busy;
  std::vector<int> starting;
  for (const int local_rank : mend_.late()) {
    (mend_.replaced.contains(local_rank) ? starting : busy).push_back(rank_first_ + local_rank);
  }
  if (!busy.empty()) {  // it is normal that a replacement starts for longer
    MUSTER_MARK("a mend waits for ranks that are still in a step");
    turn.out.emplace_back(WarnOfMend{describe_wait(busy, starting, mend_.timeout())});
  }
}

// A worker whose library has not confirmed the loss is killed and replaced, too. If no other worker
// has the job's state, a kill cannot help, so the worker gets the time that all workers get. False
// if nothing was done.
bool SupervisorCore::end_deaf(Turn& turn) {
  const std::set<int> unheard = deaf();
  const bool are_last = others_ == 0 && std::ranges::all_of(mend_.holders, [&](int local_rank) {
                          return is_lost(local_rank) || unheard.contains(local_rank);
                        });
  if (unheard.empty() || are_last) {
    return false;
  }
  if (mend_.last) {
    fall_back(turn,
              fmt::format("rank {} did not react to the loss of another rank",
                          rank_first_ + *unheard.begin()));
    return true;
  }
  MUSTER_MARK("a survivor does not confirm a loss");
  for (const int local_rank : unheard) {
    turn.out.emplace_back(KillTree{local_rank, true});
  }
  return true;
}

// The restart that the mend was granted is used for all workers.
void SupervisorCore::fall_back(Turn& turn, std::string reason) {
  MUSTER_MARK("a mend ends in a restart of all workers");
  if (!mend_.epoch) {
    report_failures(turn);  // no mend has counted them
  }
  mend_.end();
  turn.out.emplace_back(EndMend{reason});
  turn.out.emplace_back(no_mend(reason));
  stop_workers(turn, Why::regroup, SIGTERM);
}

}  // namespace muster
