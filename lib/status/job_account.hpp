// SPDX-License-Identifier: Apache-2.0
// JobAccount: what the job's time was used for, as one node knows it from its events. Part of
// JobStatus; changed only by account_event. Value.
#pragma once

#include "status/time_account.hpp"

#include <optional>

namespace muster {

struct JobAccount {
  TimeAccount time;
  bool is_mending = false;
  bool has_stepped = false;   // a worker of this round has reported a step or that it is ready
  bool ever_stepped = false;  // a worker of any round has
  bool is_preempted = false;
  bool saved_in_time = false;           // after the notice of a preemption
  Micros running_before = 0;            // the running time before this round
  Micros cleared_since = 0;             // no worker of the stopped round is left; 0 if unknown
  std::optional<Micros> delayed_until;  // --restart-delay
};

}  // namespace muster
