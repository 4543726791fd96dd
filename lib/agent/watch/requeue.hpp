// SPDX-License-Identifier: Apache-2.0
// Requeue: asks Slurm to requeue a preempted job (--on-preempt=requeue). Owned by the agent; lives
// on its loop. Resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/environ.hpp"
#include "process/start/helper_process.hpp"

#include <functional>
#include <memory>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

// scontrol is killed after this time, because it retries while Slurm's controller does not respond.
inline constexpr Duration kRequeueTimeout = std::chrono::seconds(10);

class Requeue {
 public:
  Requeue(asio::io_context& loop, const Environ& variables, EventStream& events)
      : loop_(loop), environ_(variables), events_(events) {}

  // Runs `scontrol requeue`, unless Slurm is already ending the job. Calls `done` later, whether it
  // has worked or not.
  void run(std::function<void()> done);

 private:
  void refuse(const std::string& why);

  asio::io_context& loop_;
  const Environ& environ_;
  EventStream& events_;
  std::unique_ptr<HelperProcess> scontrol_;
  std::function<void()> done_;
};

}  // namespace muster
