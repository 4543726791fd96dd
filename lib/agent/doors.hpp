// SPDX-License-Identifier: Apache-2.0
// Doors: decides which local users may connect to this agent and to the worker store. Owned by the
// agent; one thread.
#pragma once

#include "agent/rounds/shared_rounds.hpp"
#include "config/launch_config.hpp"
#include "io/user_admission.hpp"
#include "process/tree/job_sockets.hpp"

#include <functional>
#include <string>

#include <unistd.h>

namespace muster {

struct Doors {
  UserAdmission agents{::geteuid()};  // decides which agents may connect
  UserAdmission store{::geteuid()};   // decides which workers may use the store
  JobSockets job_sockets{};

  // Prints refusals with `warn`. If the agent runs as root, its workers may run as other users. In
  // that case, the agent identifies a worker's sockets by process, not by user.
  void guard(const std::function<void(const std::string&)>& warn);

  // In a multi-node job: the other nodes vouch for their workers.
  void guard_shared(SharedRounds& rounds, StoreVia store_via);
};

}  // namespace muster
