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

// A job of this machine.
struct FoundJob {
  JobSource source;
  std::string status;      // JSON; empty: it did not answer in time
  pid_t launcher_pid = 0;  // of one that did not answer: the parent of its agent
  pid_t agent_pid = 0;     // as the kernel says

  [[nodiscard]] bool is_silent() const { return status.empty(); }
};

// All that let us ask, by the pid of their launchers. They are asked at once: those that do not
// answer cost `timeout` together.
[[nodiscard]] std::vector<FoundJob> find_jobs(Duration timeout);

// Those of --pid and --run-id, and silent ones that may be meant.
[[nodiscard]] std::vector<FoundJob> chosen_jobs(const ControlOptions& options);

// Takes those out that did not answer.
[[nodiscard]] std::vector<FoundJob> take_silent(std::vector<FoundJob>& jobs);

// "no answer within 1 s from the launcher with pid 4242 …": unreachable.
[[nodiscard]] Error silent_error(const std::vector<FoundJob>& silent, Duration waited);

// The only one. Errors: not_found, usage (several).
[[nodiscard]] Result<FoundJob> choose_job(std::vector<FoundJob> jobs,
                                          const ControlOptions& options);

// The one of --pid, --run-id; the only one without. Errors: as choose_job; unreachable.
[[nodiscard]] Result<FoundJob> find_job(const ControlOptions& options);

// The one of --endpoint, else as find_job.
[[nodiscard]] Result<JobSource> find_source(const ControlOptions& options);

// "pid 4242  train.py, job night, running"
[[nodiscard]] std::string describe(const FoundJob& job);

}  // namespace muster
