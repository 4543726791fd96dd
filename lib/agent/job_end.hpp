// SPDX-License-Identifier: Apache-2.0
// JobEnd: what the agent does after the supervisor has ended the job: it asks for a requeue, writes
// the report, removes files that are no longer needed, and waits for commands of --on-event.
// Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/failures/job_result.hpp"
#include "agent/sinks/command_runner.hpp"
#include "agent/sinks/event_commands.hpp"
#include "agent/sinks/final_report.hpp"
#include "agent/sinks/roll_call_lines.hpp"
#include "agent/watch/preemption_control.hpp"
#include "agent/watch/requeue.hpp"
#include "agent/web/job_server.hpp"
#include "agent/workers/run_folder.hpp"
#include "agent/workers/worker_channel.hpp"
#include "process/run/linux_runner.hpp"

#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace muster {

// The objects that JobEnd uses.
struct JobEndParts {
  const std::unique_ptr<LinuxRunner>& runner;  // null if the job could not be started
  EventStream& events;
  EventCommands& event_commands;
  RollCallLines& roll_call;
  FinalReport& final_report;
  JobServer& job_server;
  AgentRunFolder& folder;
  WorkerChannel& channel;
  PreemptionControl& preemption;
};

class JobEnd {
 public:
  // Calls `stop` when the agent may exit.
  JobEnd(asio::io_context& loop,
         const AgentSetup& setup,
         JobEndParts parts,
         std::function<void()> stop)
      : setup_(setup),
        parts_(parts),
        requeue_(loop, setup.environ, parts.events),
        timer_(loop),
        stop_(std::move(stop)) {}

  void begin(const JobResult& ended);

  // True as soon as the report has been written.
  [[nodiscard]] bool is_reported() const { return is_reported_; }

  [[nodiscard]] int exit_code() const { return exit_code_; }

  // True if a spare took the place of this node, and no signal has asked for an end since.
  [[nodiscard]] bool rejoins() const { return rejoins_; }

  // The user asks for an end again: `stop` is called, whatever still runs.
  void take_signal(int signo);

 private:
  void report(JobResult result);
  void await_commands();

  const AgentSetup& setup_;
  JobEndParts parts_;
  Requeue requeue_;
  asio::steady_timer timer_;
  std::function<void()> stop_;
  bool is_reported_ = false;
  int exit_code_ = 0;
  bool rejoins_ = false;
};

}  // namespace muster
