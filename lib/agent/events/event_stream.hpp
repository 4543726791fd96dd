// SPDX-License-Identifier: Apache-2.0
// EventStream: passes each event of the job to all sinks, in order, with a timestamp and the round
// number. Owned by the agent. One thread. A sink may emit an event while it handles another one.
// All sinks then receive the new event before the remaining sinks receive the original one.
#pragma once

#include "agent/events/job_event.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class EventSink {
 public:
  virtual ~EventSink() = default;
  // Must not block.
  virtual void take(const JobEvent& event) = 0;
};

class EventStream {
 public:
  using Clock = std::function<double()>;

  EventStream(std::string node, Clock wall_seconds)
      : node_(std::move(node)), wall_seconds_(std::move(wall_seconds)) {}

  // Call before the first event. The sink must live until after the last event.
  void add(EventSink& sink) { sinks_.push_back(&sink); }

  // Sets the round number of all later events.
  void set_round(std::uint64_t number) { round_ = number; }

  void tell(event::What what) {
    const JobEvent event{wall_seconds_(), node_, round_, std::move(what)};
    for (EventSink* sink : sinks_) {
      sink->take(event);
    }
  }

  void say(LogLevel level, std::string text) { tell(event::Message{level, std::move(text)}); }

 private:
  std::string node_;
  Clock wall_seconds_;
  std::uint64_t round_ = 0;
  std::vector<EventSink*> sinks_;
};

}  // namespace muster
