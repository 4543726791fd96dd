// SPDX-License-Identifier: Apache-2.0
// Messages: the sink that logs job events as the launcher's own lines. Owned by the agent; one
// thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"

#include <functional>

namespace muster {

// no-color.org: colours are disabled if NO_COLOR is set and not empty.
[[nodiscard]] bool colours_wanted(const Environ& environ);

class Messages final : public EventSink {
 public:
  explicit Messages(const AgentSetup& setup);

  // `call` is called before each line, to remove a live line from the terminal.
  void before_lines(std::function<void()> call) { before_ = std::move(call); }

  void take(const JobEvent& event) override;

  [[nodiscard]] bool has_colours() const { return has_colours_; }

 private:
  bool has_colours_;
  std::function<void()> before_ = [] {};
};

}  // namespace muster
