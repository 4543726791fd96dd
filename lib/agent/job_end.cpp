// SPDX-License-Identifier: Apache-2.0
#include "agent/job_end.hpp"

#include "base/logger.hpp"

#include <csignal>
#include <string>

namespace muster {
namespace {

constexpr Duration kConsoleTimeout = std::chrono::milliseconds(250);

}  // namespace

void JobEnd::begin(const JobResult& ended) {
  JobResult result = ended;
  parts_.preemption.complete(result);
  const bool requeues = setup_.config.on_preempt == OnPreempt::requeue;
  if (requeues && is_preempted(result) && parts_.preemption.is_first_node()) {
    requeue_.run([this, result] { report(result); });
  } else {
    report(std::move(result));
  }
}

void JobEnd::report(JobResult result) {
  LinuxRunner* const runner = parts_.runner.get();
  result.output_lost = runner != nullptr && runner->has_lost_output();
  exit_code_ = exit_code_of(result);
  rejoins_ = result.outcome == Outcome::replaced;
  parts_.channel.end_round();
  parts_.final_report.write_error_file(result);
  const std::string logs = parts_.folder.clean_up(result.outcome == Outcome::failed);
  if (runner != nullptr) {
    parts_.roll_call.clear_line();
    runner->tell_unshown();
  }
  parts_.job_server.tell_loss();
  parts_.events.tell(event::JobEnded{result, logs});
  parts_.job_server.close();
  if (runner != nullptr) {
    runner->finish_console(kConsoleTimeout);
  }
  is_reported_ = true;
  if (setup_.config.on_preempt == OnPreempt::stay && is_preempted(result)) {
    log_warning("--on-preempt=stay: waiting until the scheduler kills this process");
  } else {
    await_commands();
  }
}

// A signal ends the wait.
void JobEnd::await_commands() {
  timer_.expires_after(kEventCommandsAtEnd);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      log_warning(parts_.event_commands.unfinished());
      stop_();
    }
  });
  parts_.event_commands.when_idle(stop_);
}

void JobEnd::take_signal(int signo) {
  if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT) {
    exit_code_ = rejoins_ ? 128 + signo : exit_code_;
    rejoins_ = false;
    stop_();
  }
}

}  // namespace muster
