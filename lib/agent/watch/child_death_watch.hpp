// SPDX-License-Identifier: Apache-2.0
// ChildDeathWatch: implements --on-child-death=fail. If a descendant of a worker fails, the worker
// fails too, and its process group is killed immediately. It is an event sink, so that it is
// notified when workers start, exit and are stopped. Owned by the agent; one thread.
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
  std::map<int, pid_t> workers_;  // running workers by local rank
  DescendantWatch watch_;
};

}  // namespace muster
