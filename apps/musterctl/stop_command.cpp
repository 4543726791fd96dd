// SPDX-License-Identifier: Apache-2.0
// stop: the launcher of a job gets SIGTERM, as if the user had sent it, and is waited for.
#include "base/clock.hpp"
#include "commands.hpp"
#include "io/wait_ready.hpp"
#include "job_source.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // the name may hold anything
  pid_t parent = 0;
  if (name_end != std::string::npos) {
    std::sscanf(line.c_str() + name_end + 1, " %*c %d", &parent);
  }
  return parent;
}

// The descriptor first: what has this number later is another process.
Result<UniqueFd> hold_launcher(const FoundJob& job) {
  UniqueFd launcher(
      job.launcher_pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, job.launcher_pid, 0)) : -1);
  if (!launcher || parent_of(job.agent_pid) != job.launcher_pid) {
    return failure(Errc::not_possible,
                   fmt::format("the launcher of {} is not seen from here: stop it where it runs "
                               "(another container?)",
                               describe(job)));
  }
  return launcher;
}

}  // namespace

Result<int> run_stop(const ControlOptions& options) {
  const auto job = find_job(options);
  if (!job) {
    return std::unexpected(job.error());
  }
  const auto launcher = hold_launcher(*job);
  if (!launcher) {
    return std::unexpected(launcher.error());
  }
  if (::syscall(SYS_pidfd_send_signal, launcher->get(), SIGTERM, nullptr, 0) != 0) {
    return std::unexpected(system_error("cannot signal the launcher", errno));
  }
  const TimePoint deadline =
      options.timeout_given ? steady_now() + options.timeout : TimePoint::max();
  if (!wait_ready(launcher->get(), POLLIN, deadline)) {
    return failure(Errc::timed_out,
                   fmt::format("{}: asked to stop, and still there after {}",
                               describe(*job),
                               muster::describe(options.timeout)));
  }
  print(fmt::format("pid {}: stopped\n", job->launcher_pid));
  return 0;
}

}  // namespace muster
