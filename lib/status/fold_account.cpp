// SPDX-License-Identifier: Apache-2.0
#include "status/fold_account.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace muster {
namespace {

TimeUse use_of(const JobStatus& status) {
  if (status.account.is_mending) {
    return TimeUse::mending;
  }
  if (status.account.delayed_until) {
    return TimeUse::waiting;
  }
  switch (status.phase) {
    case JobPhase::waiting: {
      const auto& call = status.roll_call;
      return call && call->present < call->needed ? TimeUse::waiting : TimeUse::forming;
    }
    case JobPhase::starting:
      return TimeUse::starting;
    case JobPhase::running:
    case JobPhase::finished:
      return TimeUse::running;
    case JobPhase::stopping:
    case JobPhase::ended:
      break;
  }
  return TimeUse::stopping;
}

// No event reports the end of a delay.
void advance(JobAccount& account, Micros now) {
  if (account.delayed_until && *account.delayed_until < now) {
    account.time.advance(*account.delayed_until);
    account.time.enter(TimeUse::forming);
  }
  account.time.advance(now);
}

// The time after the last worker had exited belongs to the next round.
void end_stopping(JobAccount& account) {
  if (account.time.use() == TimeUse::stopping && account.cleared_since != 0) {
    account.time.reassign(
        TimeUse::stopping, TimeUse::forming, account.time.now() - account.cleared_since);
  }
  account.cleared_since = 0;
}

// The workers had not reached their first step yet.
void count_as_starting(JobAccount& account) {
  account.time.reassign(
      TimeUse::running, TimeUse::starting, account.time.running() - account.running_before);
}

void note_first_step(JobAccount& account) {
  if (!account.has_stepped) {
    count_as_starting(account);
    account.has_stepped = true;
    account.ever_stepped = true;
  }
}

// A program that reports steps has not reached one in this round.
void end_workers(JobAccount& account) {
  if (!account.has_stepped && account.ever_stepped) {
    count_as_starting(account);
  }
  account.time.discard();
}

void take_first_step(JobStatus& status, const Json& /*json*/) {
  note_first_step(status.account);
}

void take_saved(JobStatus& status, const Json& /*json*/) {
  note_first_step(status.account);
  status.account.time.save();
  status.account.saved_in_time = status.account.is_preempted;
}

void take_preempt(JobStatus& status, const Json& /*json*/) {
  status.account.is_preempted = true;
}

void take_restart(JobStatus& status, const Json& json) {
  status.account.is_mending = !field(json, "replaced").empty();
}

void take_mended(JobStatus& status, const Json& /*json*/) {
  status.account.is_mending = false;
}

void take_rolled_back(JobStatus& status, const Json& json) {
  status.account.time.roll_back(micros_of(seconds_of(json, "seconds")));
}

void take_worker_ended(JobStatus& status, const Json& /*json*/) {
  const RoundStatus* round = status.round();
  const bool any =
      round != nullptr && std::ranges::any_of(round->workers, [](const auto& worker) {
        return worker.state == WorkerState::running || worker.state == WorkerState::dying;
      });
  status.account.cleared_since = any ? 0 : status.account.time.now();
}

void take_leftovers(JobStatus& status, const Json& /*json*/) {
  status.account.cleared_since = status.account.time.now();
}

void take_restart_delayed(JobStatus& status, const Json& json) {
  end_stopping(status.account);
  status.account.delayed_until = status.account.time.now() + micros_of(seconds_of(json, "seconds"));
}

void take_roll_call(JobStatus& status, const Json& /*json*/) {
  end_stopping(status.account);
  status.account.is_mending = false;
  status.account.delayed_until.reset();
}

void take_round_begun(JobStatus& status, const Json& json) {
  take_roll_call(status, json);
  end_workers(status.account);
  status.account.has_stepped = false;
  status.account.running_before = status.account.time.running();
}

void take_job_ended(JobStatus& status, const Json& /*json*/) {
  status.account.is_mending = false;
  status.account.delayed_until.reset();
  if (status.outcome != "succeeded" && !status.account.saved_in_time) {
    end_workers(status.account);
  }
}

// Not a single worker is replaced, but all workers stop.
void take_stop(JobStatus& status, const Json& /*json*/) {
  status.account.is_mending = false;
}

struct AccountRow {
  std::string_view event;
  void (*take)(JobStatus&, const Json&);
};

constexpr std::array<AccountRow, 15> kRows{{{"first_step", take_first_step},
                                            {"worker_ready", take_first_step},
                                            {"saved", take_saved},
                                            {"preempt", take_preempt},
                                            {"restart", take_restart},
                                            {"mended", take_mended},
                                            {"rolled_back", take_rolled_back},
                                            {"worker_ended", take_worker_ended},
                                            {"leftovers", take_leftovers},
                                            {"restart_delayed", take_restart_delayed},
                                            {"roll_call", take_roll_call},
                                            {"round_begun", take_round_begun},
                                            {"regroup", take_stop},
                                            {"fenced", take_stop},
                                            {"job_ended", take_job_ended}}};

}  // namespace

Micros micros_of(double unix_seconds) {
  return std::llround(unix_seconds * kMicrosPerSecond);
}

void account_event(JobStatus& status, std::string_view event, const Json& json) {
  advance(status.account, micros_of(seconds_of(json, "time")));
  const auto row = std::ranges::find(kRows, event, &AccountRow::event);
  if (row != kRows.end()) {
    row->take(status, json);
  }
  status.account.time.enter(use_of(status));
}

TimeSpent spent_until(const JobStatus& status, double now) {
  JobAccount account = status.account;
  if (status.phase != JobPhase::ended) {
    advance(account, micros_of(now));
  }
  return account.time.spent();
}

Json account_json(const TimeSpent& spent) {
  Json json;
  json["total_us"] = spent.total;
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    json[std::string(kTimeUses.at(i)) + "_us"] = spent.uses.at(i);
  }
  if (!spent.is_lost_known) {
    json["lost_us"] = nullptr;
  }
  json["goodput"] = spent.is_lost_known ? Json(spent.goodput()) : Json();
  return json;
}

}  // namespace muster
