// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/event_commands.hpp"

#include "agent/events/event_text.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <utility>
#include <variant>

namespace muster {

bool runs_command(const event::What& what) {
  return std::holds_alternative<event::JobStarted>(what) ||
         std::holds_alternative<event::RestartDecided>(what) ||
         std::holds_alternative<event::RegroupAsked>(what) ||
         std::holds_alternative<WorkerFailure>(what) ||
         std::holds_alternative<event::HangFound>(what) ||
         std::holds_alternative<event::HangOver>(what) ||
         std::holds_alternative<event::JobEnded>(what);
}

void EventCommands::take(const JobEvent& event) {
  if (!runs_command(event.what)) {
    return;
  }
  waiting_.push_back(event_json(event));
  begin_some();
  while (waiting_.size() > kWaitingEventsMax) {
    waiting_.pop_front();
    ++dropped_;
  }
  if (std::holds_alternative<event::JobEnded>(event.what)) {
    tell_dropped();
  }
}

void EventCommands::begin() {
  has_begun_ = true;
  begin_some();
}

void EventCommands::begin_some() {
  while (has_begun_ && !waiting_.empty() && running_ < kEventCommandsAtOnce) {
    const std::string input = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    const auto started = start_(input, [this] { note_ended(); });
    if (!started) {
      --running_;
      if (!std::exchange(has_failed_, true)) {
        trouble_("cannot run the command of --on-event: " + started.error().message);
      }
    }
  }
}

void EventCommands::note_ended() {
  --running_;
  begin_some();
  if (running_ == 0 && idle_) {
    std::exchange(idle_, nullptr)();
  }
}

void EventCommands::tell_dropped() {
  if (dropped_ > 0) {
    trouble_(fmt::format("--on-event: dropped {}, because {} commands were still running",
                         counted(dropped_, "event"),
                         kEventCommandsAtOnce));
  }
}

std::string EventCommands::unfinished() const {
  std::string out =
      fmt::format("--on-event: killed {} that did not exit in time", counted(running_, "command"));
  return waiting_.empty() ? out : out + "; dropped " + counted(waiting_.size(), "event");
}

void EventCommands::when_idle(std::function<void()> idle) {
  if (running_ == 0) {
    idle();
  } else {
    idle_ = std::move(idle);
  }
}

}  // namespace muster
