// SPDX-License-Identifier: Apache-2.0
// ChildDeathWatch: what the agent does about processes below its workers, where
// --on-child-death=fail asks for it: the failure of one is the failure of its worker, whose group
// is killed at once. A sink of events, since these say when workers start, end and are stopped.
// Owned by the agent; one thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "process/deaths/descendant_watch.hpp"
#include "process/run/linux_runner.hpp"

#include <map>

#include <sys/types.h>

namespace muster {

class ChildDeathWatch final : public EventSink, public DescendantObserver {
 public:
  ChildDeathWatch(asio::io_context& loop,
                  LinuxRunner& runner,
                  EventStream& events,
                  Supervisor& supervisor);

  // EventSink
  void take(const JobEvent& event) override;

  void look_before_reaping() { watch_.look_before_reaping(); }

  // DescendantObserver
  void on_descendant_failure(const DescendantEnd& end) override;
  void on_too_many_descendants() override;

 private:
  LinuxRunner& runner_;
  EventStream& events_;
  Supervisor& supervisor_;
  std::map<int, pid_t> workers_;  // by local rank: those that run
  DescendantWatch watch_;
};

}  // namespace muster
