// SPDX-License-Identifier: Apache-2.0
// JobSource: one running job that can be asked: found on this machine by its Unix socket, or at an
// address from elsewhere. Value.
#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "http/client.hpp"
#include "options.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

struct JobSource {
  std::string socket;                // abstract name; empty: `endpoint`
  std::optional<Endpoint> endpoint;  // of --endpoint

  // Begins a GET. Errors: those of connecting and of HttpStream::get; protocol, where it is
  // refused.
  [[nodiscard]] Result<HttpStream> ask(const std::string& target, TimePoint deadline) const;

  // The whole answer.
  [[nodiscard]] Result<std::string> get(const std::string& target, Duration timeout) const;
};

// A job of this machine that answered.
struct FoundJob {
  JobSource source;
  std::string status;  // JSON
  pid_t launcher_pid = 0;
  pid_t agent_pid = 0;  // as the kernel says
};

// All that let us ask, by the pid of their launchers.
[[nodiscard]] std::vector<FoundJob> find_jobs(Duration timeout);

// Those of --pid and --run-id.
[[nodiscard]] std::vector<FoundJob> chosen_jobs(const ControlOptions& options);

// The one of --pid, --run-id; the only one without. Errors: not_found, usage (several).
[[nodiscard]] Result<FoundJob> find_job(const ControlOptions& options);

// The one of --endpoint, else as find_job.
[[nodiscard]] Result<JobSource> find_source(const ControlOptions& options);

// "pid 4242  train.py, job night, running"
[[nodiscard]] std::string describe(const FoundJob& job);

}  // namespace muster
