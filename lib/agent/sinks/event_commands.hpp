// SPDX-License-Identifier: Apache-2.0
// EventCommands: the sink for --on-event. Starts the user's command for each event that concerns
// the whole job, with the event's JSON as its input. Limits how many commands run and how many
// events wait for one. Pure except for `Start`. Owned by the agent; one thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace muster {

// This number of commands may run at the same time.
inline constexpr std::size_t kEventCommandsAtOnce = 4;

// If more events wait for a command, the oldest are dropped.
inline constexpr std::size_t kWaitingEventsMax = 64;

// True for the events for which the command runs: the job starts and ends, workers fail or restart,
// a hang begins or ends.
[[nodiscard]] bool runs_command(const event::What& what);

class EventCommands final : public EventSink {
 public:
  // Starts the command with this input. Calls `ended` once, later, when the command has exited or
  // was killed; not if the command could not be started.
  using Start =
      std::function<Result<void>(const std::string& input, const std::function<void()>& ended)>;

  // Calls `trouble` if the command cannot be started (once), and at the end of the job if events
  // were dropped.
  EventCommands(Start start, std::function<void(const std::string&)> trouble)
      : start_(std::move(start)), trouble_(std::move(trouble)) {}

  void take(const JobEvent& event) override;

  // Until this call, all events wait.
  void begin();

  // Describes the commands that still run and the events that still wait.
  [[nodiscard]] std::string unfinished() const;

  // Calls `idle` as soon as no command runs or waits, at once or later.
  void when_idle(std::function<void()> idle);

 private:
  void begin_some();
  void note_ended();
  void tell_dropped();

  Start start_;
  std::function<void(const std::string&)> trouble_;
  std::function<void()> idle_;
  std::deque<std::string> waiting_;
  bool has_begun_ = false;
  std::size_t running_ = 0;
  std::uint64_t dropped_ = 0;
  bool has_failed_ = false;  // a command could not be started
};

}  // namespace muster
