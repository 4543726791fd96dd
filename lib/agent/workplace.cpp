// SPDX-License-Identifier: Apache-2.0
#include "agent/workplace.hpp"

#include "agent/error_file.hpp"
#include "agent/files.hpp"

#include <utility>

namespace muster {

Result<std::vector<ProcessSpec>> RunPlace::prepare_round(const Assignment& assignment) {
  if (const auto ready = prepare(assignment.attempt); !ready) {
    return std::unexpected(ready.error());
  }
  return process_specs(setup_.config, setup_.environ, assignment, context_);
}

Result<void> RunPlace::prepare(int attempt) {
  if (run_dir_.path().empty()) {
    auto made = RunDir::make(setup_.config, setup_.environ, setup_.random);
    if (!made) {
      return std::unexpected(made.error());
    }
    run_dir_ = std::move(*made);
    context_ = PlanContext{.run_dir = run_dir_.path(),
                           .hostname = setup_.hostname,
                           .stderr_is_terminal = setup_.stderr_is_terminal,
                           .stdout_is_torn = setup_.stdout_is_torn,
                           .agent_socket = agent_socket_};
  }
  auto made = run_dir_.make_attempt(attempt, setup_.config.nproc);
  if (made && setup_.config.watch_hangs) {
    context_.flights = run_dir_.place_of_pipes(attempt);
  }
  return made;
}

void RunPlace::add_record(WorkerFailure& failure) {
  if (failure.spawn_error) {
    return;
  }
  const std::string path = error_file_path(context_, failure.attempt, failure.local_rank);
  failure.record = parse_error_file(read_some(path, kErrorFileBytesMax + 1));
  failure.error_file = failure.record ? path : std::string();
}

void RunPlace::add_stderr_tail(WorkerFailure& failure) {
  if (!failure.spawn_error) {
    failure.stderr_tail = runner_->stderr_tail(failure.local_rank);
  }
}

std::string RunPlace::clean_up(bool failed) {
  return run_dir_.clean_up(failed) ? run_dir_.path() : std::string();
}

std::string RunPlace::kept_logs() const {
  return setup_.config.log_dir.empty() ? std::string() : run_dir_.path();
}

}  // namespace muster
