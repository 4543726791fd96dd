// SPDX-License-Identifier: Apache-2.0
// The values of settings with a choice. LaunchConfig (launch_config.hpp) contains them. Values.
#pragma once

namespace muster {

// How workers on other nodes reach the store, which the agent on the node with rank 0 serves.
enum class StoreVia {
  direct,  // workers connect to the store; their node's agent confirms that they belong to the job
  proxy,   // each agent listens on 127.0.0.1 and forwards connections to the store
  open,    // workers connect to the store, and access is not controlled
};

// Which processes receive a signal directly.
enum class SignalDelivery {
  leader,      // only the launcher, which forwards the signal to the workers
  slurm_step,  // also the workers if Slurm sent it; otherwise like `leader`
  group,       // also the workers, except for signals from the terminal
};

// What to do with a worker if one of its child processes crashes, fails or is killed.
enum class OnChildDeath { ignore, fail };

// What the scheduler stops after a notice of preemption.
enum class PreemptScope { job, node };

// What muster does when the ranks of a preempted job have exited.
enum class OnPreempt {
  exit,
  stay,     // until it is killed, for schedulers that requeue only jobs that they have killed
  requeue,  // asks Slurm to requeue the job
};

// When equal lines of several workers become one line. `automatic`: on a terminal, for several
// workers.
enum class FoldLines { automatic, on, off };

// --check: what happens to nodes with defects before the first round. `require`: they leave.
enum class NodeCheck { off, report, require };

}  // namespace muster
