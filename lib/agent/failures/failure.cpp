// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/failure.hpp"

#include "agent/failures/job_result.hpp"
#include "base/printable.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kFailureTextMax = 500;

// The earliest and latest possible time of the failure. Error files contain whole seconds. Without
// an error file, only the exit time is known.
struct When {
  double earliest;
  double latest;
};

When when(const WorkerFailure& failure) {
  if (failure.record && failure.record->unix_seconds) {
    return {*failure.record->unix_seconds, *failure.record->unix_seconds + 1};
  }
  return {failure.wall_seconds, failure.wall_seconds};
}

std::string with_lost_child(const std::string& lost_child, std::string end) {
  return lost_child.empty() ? std::move(end) : "lost its " + lost_child + ", " + end;
}

bool has_time(const WorkerFailure& failure) {
  return failure.record && failure.record->unix_seconds;
}

}  // namespace

bool was_stopped_by_us(const WorkerFailure& failure, int stop_signal) {
  if (!failure.after_stop) {
    return false;
  }
  const int code = failure.status.shell_code();
  return code == 128 + stop_signal || code == 128 + SIGTERM || code == 128 + SIGKILL;
}

std::optional<std::size_t> root_cause(const std::vector<WorkerFailure>& failures, int stop_signal) {
  std::optional<std::size_t> root;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const bool stopped = was_stopped_by_us(failures[i], stop_signal);
    if (!root) {
      if (!stopped) {
        root = i;
      }
      continue;
    }
    if (has_time(failures[i]) && when(failures[i]).latest <= when(failures[*root]).earliest) {
      root = i;
    }
  }
  if (root && failures[*root].lost_connection) {
    const auto cause = std::ranges::find_if(failures, [](const WorkerFailure& failure) {
      return !failure.lost_connection && !failure.after_stop;
    });
    if (cause != failures.end()) {
      root = static_cast<std::size_t>(cause - failures.begin());
    }
  }
  return root;
}

// Without a judgement, another failure of the round on this node has one. If a signal repeats, a
// restart on the same node does not help, but it may on another one.
std::string node_cause_of(const WorkerFailure& failure) {
  if (!failure.judgement || failure.preempted || failure.judgement->advice == Advice::requeue ||
      failure.judgement->named || !may_be_of_node(failure.judgement->cause)) {
    return {};
  }
  if (failure.judgement->advice != Advice::stop) {
    return std::string(name_of(failure.judgement->cause));
  }
  return failure.judgement->cause == Cause::signal ? kRepeatedSignal : "";
}

Failed failed_message(const WorkerFailure& failure) {
  Failed message;
  message.rank = failure.rank;
  message.exit_code = exit_code_of(failure);
  message.run_time = failure.run_time;
  // If the program cannot be executed, restarting it will not help.
  message.permanent = failure.ends_job || failure.preempted || failure.no_restart ||
                      (failure.spawn_error && failure.spawn_error->code != Errc::system);
  message.exited = !failure.spawn_error && failure.status.is_own_exit();
  message.node_cause = node_cause_of(failure);
  message.text = printable(describe_end(failure), kFailureTextMax);
  return message;
}

std::string describe_end(const WorkerFailure& failure) {
  if (failure.spawn_error) {
    return "could not be started: " + failure.spawn_error->message;
  }
  if (failure.hung) {
    return std::string("made no progress and was killed (--on-hang=") +
           (failure.ends_job ? "stop)" : "restart)");
  }
  std::string text = failure.status.describe();
  if (failure.out_of_memory) {
    text += ": out of memory";
    if (!failure.memory_usage.empty()) {
      text += " (" + failure.memory_usage + ")";
    }
  }
  return with_lost_child(failure.lost_child, std::move(text));
}

std::string describe_end(const WorkerExit& exit) {
  return with_lost_child(exit.lost_child, exit.status.describe());
}

}  // namespace muster
