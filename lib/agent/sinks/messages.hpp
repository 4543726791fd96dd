// SPDX-License-Identifier: Apache-2.0
// Messages: the sink that writes the launcher's own lines to stderr. They are queued together with
// the workers' output, so a stalled console does not block the launcher. Owned by the agent; one
// thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "process/run/linux_runner.hpp"

#include <functional>
#include <string>

namespace muster {

// no-color.org: colours are disabled if NO_COLOR is set and not empty.
[[nodiscard]] bool colours_wanted(const Environ& environ);

class Messages final : public EventSink {
 public:
  explicit Messages(const AgentSetup& setup) : setup_(setup) {}

  // Sets the queue. Until then, lines are written directly.
  void use(LinuxRunner& runner) { runner_ = &runner; }

  // `call` is called before each line, to remove a live line from the terminal.
  void before_lines(std::function<void()> call) { before_ = std::move(call); }

  void take(const JobEvent& event) override;

  // Writes `text` unchanged.
  void show(const std::string& text);

  // Flushes the queue, or gives up after a timeout.
  void finish();

  [[nodiscard]] bool has_colours() const;

 private:
  const AgentSetup& setup_;
  LinuxRunner* runner_ = nullptr;
  std::function<void()> before_ = [] {};
};

}  // namespace muster
