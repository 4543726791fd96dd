// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include "base/clock.hpp"
#include "choose_job.hpp"
#include "io/wait_ready.hpp"
#include "process_status.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

// The status is untrusted. A user's job must not be able to make root signal another user's
// process.
bool is_launcher_of(pid_t launcher, pid_t agent) {
  const auto above = read_process_status(launcher);
  const auto below = read_process_status(agent);
  return above && below && below->parent == launcher && below->user == above->user;
}

// Opens the pidfd before the check, so that it never signals a process that reuses the pid.
Result<UniqueFd> hold_launcher(const FoundJob& job) {
  UniqueFd launcher(
      job.launcher_pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, job.launcher_pid, 0)) : -1);
  if (!launcher || !is_launcher_of(job.launcher_pid, job.agent_pid)) {
    return failure(Errc::not_possible,
                   fmt::format("the launcher of {} is not visible from here (in another "
                               "container?). Stop it there",
                               describe(job)));
  }
  return launcher;
}

}  // namespace

Result<void> end_launcher(const FoundJob& job, const ControlOptions& options) {
  const auto launcher = hold_launcher(job);
  MUSTER_RETURN_IF_ERROR(launcher);
  if (::syscall(SYS_pidfd_send_signal, launcher->get(), SIGTERM, nullptr, 0) != 0) {
    return std::unexpected(system_error("cannot signal the launcher", errno));
  }
  const TimePoint deadline =
      options.timeout_given ? steady_now() + options.timeout : TimePoint::max();
  if (!wait_ready(launcher->get(), POLLIN, deadline)) {
    return failure(Errc::timed_out,
                   fmt::format("{}: still running {} after the stop request",
                               describe(job),
                               muster::describe(options.timeout)));
  }
  return {};
}

}  // namespace muster
