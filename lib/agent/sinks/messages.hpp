// SPDX-License-Identifier: Apache-2.0
// Messages: the sink that writes the launcher's own lines on standard error. They are queued with
// what the workers print, so that a console that nobody reads holds nothing up. Owned by the agent;
// one thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "process/run/linux_runner.hpp"

#include <functional>
#include <string>

namespace muster {

// no-color.org: set and not empty.
[[nodiscard]] bool colours_wanted(const Environ& environ);

class Messages final : public EventSink {
 public:
  explicit Messages(const AgentSetup& setup) : setup_(setup) {}

  // The queue, as soon as there is one. Until then, lines are written directly.
  void use(LinuxRunner& runner) { runner_ = &runner; }

  // Called before each line: takes a live line away.
  void before_lines(std::function<void()> call) { before_ = std::move(call); }

  void take(const JobEvent& event) override;

  // As it is.
  void show(const std::string& text);

  // What was queued is on its way, or given up.
  void finish();

  [[nodiscard]] bool has_colours() const;

 private:
  const AgentSetup& setup_;
  LinuxRunner* runner_ = nullptr;
  std::function<void()> before_ = [] {};
};

}  // namespace muster
