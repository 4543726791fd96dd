// SPDX-License-Identifier: Apache-2.0
// RunFolder: the run folder with what is planned into it and what workers leave there.
// AgentRunFolder is the real one; tests of SharedRounds have a fake. Owned by the agent. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/failures/failure.hpp"
#include "agent/workers/run_dir.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "plan/process_specs.hpp"
#include "process/values/process_runner.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class RunFolder {
 public:
  virtual ~RunFolder() = default;
  // Folders and processes of the next attempt.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> prepare_round(
      const Assignment& assignment) = 0;
  // Adds what a worker left: its error file; the last lines of its standard error.
  virtual void add_record(WorkerFailure& failure) = 0;
  virtual void add_stderr_tail(WorkerFailure& failure) = 0;
  // Empty until the first round, and where there is none.
  [[nodiscard]] virtual const std::string& path() const = 0;
  // Where the logs of this node are kept; empty where they are not.
  [[nodiscard]] virtual std::string kept_logs() const = 0;
};

class AgentRunFolder final : public RunFolder {
 public:
  explicit AgentRunFolder(const AgentSetup& setup) : setup_(setup) {}

  // Knows what workers wrote; before the first of them runs.
  void use(ProcessRunner& runner) { runner_ = &runner; }

  // Reports what becomes of a run folder that has disappeared.
  void set_notice(std::function<void(LogLevel, const std::string&)> notice) {
    notice_ = std::move(notice);
  }

  // The name of the agent's socket; empty: there is none.
  void tell_workers(std::string agent_socket) { agent_socket_ = std::move(agent_socket); }

  Result<std::vector<ProcessSpec>> prepare_round(const Assignment& assignment) override;
  void add_record(WorkerFailure& failure) override;
  void add_stderr_tail(WorkerFailure& failure) override;

  const std::string& path() const override { return run_dir_.path(); }

  std::string kept_logs() const override;

  // After the last round. Where the folder is still there, with something in it; else empty.
  [[nodiscard]] std::string clean_up(bool failed);

 private:
  [[nodiscard]] Result<void> prepare(int attempt);
  [[nodiscard]] Result<void> make(int attempt);
  void make_again(int attempt, const Error& why);

  const AgentSetup& setup_;
  ProcessRunner* runner_ = nullptr;
  std::function<void(LogLevel, const std::string&)> notice_ = [](LogLevel, const std::string&) {};
  std::string agent_socket_;
  bool begun_ = false;  // there was a round
  RunDir run_dir_;
  PlanContext context_;
};

}  // namespace muster
