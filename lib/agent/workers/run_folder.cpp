// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/run_folder.hpp"

#include "agent/failures/error_file.hpp"
#include "agent/workers/files.hpp"
#include "plan/log_layout.hpp"
#include "process/start/exec_search.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace muster {
namespace {

// The path that execvp would find for this name.
std::string path_of(const std::string& program, const Environ& environ) {
  for (const std::string& path : program_paths(program, environ.to_block())) {
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return program;
}

}  // namespace

Result<std::vector<ProcessSpec>> AgentRunFolder::prepare_round(const Assignment& assignment) {
  auto debug_ports = debug_ports_.for_round(assignment);
  MUSTER_RETURN_IF_ERROR(debug_ports);
  MUSTER_RETURN_IF_ERROR(prepare(assignment.attempt));
  context_.debug_ports = std::move(*debug_ports);
  auto specs = process_specs(setup_.config, setup_.environ, assignment, context_);
  MUSTER_RETURN_IF_ERROR(specs);
  attempt_ = assignment.attempt;
  if (setup_.config.spare_workers > 0) {
    specs_ = *specs;
  }
  return specs;
}

Result<ProcessSpec> AgentRunFolder::prepare_spare(int number) const {
  return spare_spec(specs_, context_, attempt_, number);
}

Result<std::vector<ProcessSpec>> AgentRunFolder::prepare_mend(const Assignment& assignment,
                                                              const std::vector<int>& local_ranks) {
  for (const int local_rank : local_ranks) {
    run_dir_.make_worker(assignment.attempt, local_rank, ++context_.replacements[local_rank]);
  }
  auto specs = process_specs(setup_.config, setup_.environ, assignment, context_);
  MUSTER_RETURN_IF_ERROR(specs);
  std::erase_if(*specs, [&](const ProcessSpec& spec) {
    return std::ranges::find(local_ranks, spec.local_rank) == local_ranks.end();
  });
  return specs;
}

Result<void> AgentRunFolder::prepare(int attempt) {
  const auto made = make(attempt);
  if (!made && !std::exchange(begun_, true)) {
    return made;  // an unusable --log-dir, reported before any worker has run
  }
  begun_ = true;
  if (!made) {
    make_again(attempt, made.error());
  }
  context_ = PlanContext{.run_dir = run_dir_.path(),
                         .hostname = setup_.hostname,
                         .stderr_is_terminal = setup_.stderr_is_terminal,
                         .stdout_is_torn = setup_.stdout_is_torn,
                         .one_sink = setup_.one_sink,
                         .stdin_is_terminal = setup_.stdin_is_terminal,
                         .agent_socket = agent_socket_};
  if (setup_.config.watch_hangs) {
    context_.flights = run_dir_.place_of_pipes(attempt);
  }
  if (setup_.config.file_timers) {
    context_.timer_file = make_timer_pipe(attempt);
  }
  if (kineto_ != nullptr) {
    context_.kineto_folder = open_kineto();
  }
  return {};
}

// The user may have chosen the path.
std::string AgentRunFolder::make_timer_pipe(int attempt) {
  std::string path(setup_.environ.get(kTimerFileVariable).value_or(""));
  if (path.empty()) {
    const std::string folder = run_dir_.place_of_pipes(attempt);
    path = folder.empty() ? "" : fmt::format("{}/{}", folder, kTimerPipe);
  }
  const auto made = make_pipe(path);
  if (!made) {
    notice_(LogLevel::warning,
            "TORCHELASTIC_ENABLE_FILE_TIMER has no effect: " + made.error().message);
    path.clear();
  }
  return path;
}

std::string AgentRunFolder::open_kineto() {
  const auto opened = kineto_->open(std::string(setup_.environ.get("TMPDIR").value_or("")));
  if (!opened) {
    notice_(LogLevel::warning,
            "musterctl profile cannot use PyTorch's profiler: " + opened.error().message);
  }
  return opened.value_or("");
}

Result<void> AgentRunFolder::make(int attempt) {
  if (run_dir_.path().empty()) {
    auto made = RunDir::make(setup_.config, setup_.environ, setup_.random);
    MUSTER_RETURN_IF_ERROR(made);
    run_dir_ = std::move(*made);
  }
  return run_dir_.make_attempt(attempt, setup_.config.nproc);
}

// The directory contains only optional files, so losing it must not end the job.
void AgentRunFolder::make_again(int attempt, const Error& why) {
  const std::string lost = run_dir_.path();
  RunDir before = std::exchange(
      run_dir_, RunDir::make_again(setup_.config, setup_.environ, setup_.random, attempt));
  if (run_dir_.path() != lost && setup_.config.log_dir.empty()) {
    before.clean_up(true);  // the old directory still exists if its file system is full
  }
  if (run_dir_.path().empty()) {
    notice_(LogLevel::warning,
            why.message + "; workers continue without log files and error files");
  } else if (run_dir_.path() != lost || !setup_.config.log_dir.empty()) {
    notice_(LogLevel::warning,
            fmt::format("lost the run directory '{}': {}; files of this attempt are in '{}'",
                        lost,
                        why.message,
                        run_dir_.path()));
  } else {
    notice_(LogLevel::info, "the run directory '" + lost + "' was removed; recreated it");
  }
}

void AgentRunFolder::add_evidence(WorkerFailure& failure) {
  const std::string path = error_file_path(context_, failure.attempt, failure.local_rank);
  failure.record = parse_error_file(read_some(path, kErrorFileBytesMax + 1));
  failure.error_file = failure.record ? path : std::string();
  failure.stderr_tail = runner_->stderr_tail(failure.local_rank);
  const std::string& python = setup_.config.program.python;
  failure.python = python.empty() ? "" : path_of(python, setup_.environ);
}

std::string AgentRunFolder::clean_up(bool failed) {
  if (kineto_ != nullptr) {
    kineto_->close();
  }
  return run_dir_.clean_up(failed) ? run_dir_.path() : std::string();
}

std::string AgentRunFolder::kept_logs() const {
  return setup_.config.log_dir.empty() ? std::string() : run_dir_.path();
}

}  // namespace muster
