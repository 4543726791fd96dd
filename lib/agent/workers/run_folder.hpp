// SPDX-License-Identifier: Apache-2.0
// RunFolder: the run directory, the files planned for it, and the files that workers leave there.
// AgentRunFolder is the real implementation; tests of SharedRounds use a fake. Owned by the agent.
// Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/failures/failure.hpp"
#include "agent/workers/debug_ports.hpp"
#include "agent/workers/kineto_daemon.hpp"
#include "agent/workers/run_dir.hpp"
#include "base/error.hpp"
#include "base/log_level.hpp"
#include "plan/process_specs.hpp"
#include "process/values/process_runner.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class RunFolder {
 public:
  virtual ~RunFolder() = default;
  // Creates the directories and the process specs for the next attempt.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> prepare_round(
      const Assignment& assignment) = 0;
  // Like prepare_round, for the workers of the current attempt that are replaced.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> prepare_mend(
      const Assignment& assignment, const std::vector<int>& local_ranks) = 0;
  // Empty before the first round, or if there is no run directory.
  [[nodiscard]] virtual const std::string& path() const = 0;
  // The directory of this node's logs; empty if they are not kept.
  [[nodiscard]] virtual std::string kept_logs() const = 0;
};

class AgentRunFolder final : public RunFolder {
 public:
  explicit AgentRunFolder(const AgentSetup& setup) : setup_(setup), debug_ports_(setup.config) {}

  // Sets the runner, which has the workers' output. Call before the first worker is started.
  void use(ProcessRunner& runner) { runner_ = &runner; }

  // `notice` is called when the run directory has disappeared.
  void set_notice(std::function<void(LogLevel, const std::string&)> notice) {
    notice_ = std::move(notice);
  }

  // Sets the daemon for PyTorch's profiler. Call before the first round.
  void use(KinetoDaemon& kineto) { kineto_ = &kineto; }

  // Sets the name of the agent's socket; empty without a socket.
  void tell_workers(std::string agent_socket) { agent_socket_ = std::move(agent_socket); }

  Result<std::vector<ProcessSpec>> prepare_round(const Assignment& assignment) override;
  Result<std::vector<ProcessSpec>> prepare_mend(const Assignment& assignment,
                                                const std::vector<int>& local_ranks) override;
  // A spare worker of the current attempt. Call after prepare_round.
  [[nodiscard]] Result<ProcessSpec> prepare_spare(int number) const;
  // Adds a worker's evidence: its error file and the last lines of its stderr.
  void add_evidence(WorkerFailure& failure);

  const std::string& path() const override { return run_dir_.path(); }

  std::string kept_logs() const override;

  // The named pipe with the timers of this attempt's workers; empty if there is none.
  [[nodiscard]] const std::string& timer_file() const { return context_.timer_file; }

  // The ports of debugpy in this attempt's workers, by local rank.
  [[nodiscard]] const std::map<int, std::uint16_t>& debug_ports() const {
    return context_.debug_ports;
  }

  // Call after the last round. Returns the path if the directory still has content, else empty.
  [[nodiscard]] std::string clean_up(bool failed);

 private:
  [[nodiscard]] Result<void> prepare(int attempt);
  [[nodiscard]] Result<void> make(int attempt);
  void make_again(int attempt, const Error& why);
  [[nodiscard]] std::string make_timer_pipe(int attempt);
  [[nodiscard]] std::string open_kineto();

  const AgentSetup& setup_;
  DebugPorts debug_ports_;
  ProcessRunner* runner_ = nullptr;
  KinetoDaemon* kineto_ = nullptr;  // set if the job needs it
  std::function<void(LogLevel, const std::string&)> notice_ = [](LogLevel, const std::string&) {};
  std::string agent_socket_;
  bool begun_ = false;  // a round has begun

  RunDir run_dir_;
  PlanContext context_;
  int attempt_ = 0;
  std::vector<ProcessSpec> specs_;  // of the current attempt's workers
};

}  // namespace muster
