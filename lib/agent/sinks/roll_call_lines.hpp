// SPDX-License-Identifier: Apache-2.0
// RollCallLines: the sink that shows on stderr which nodes are present and which are missing while
// a round forms. roll_call.hpp decides what to print and when; this class adds the timer. Owned by
// the agent; lives on its loop. Resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/sinks/roll_call.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <string>

namespace muster {

class RollCallLines final : public EventSink {
 public:
  using Show = std::function<void(const std::string&)>;

  RollCallLines(asio::io_context& loop, const RollCallStyle& style, Show show);

  void take(const JobEvent& event) override;

  // Call before other lines are written.
  void clear_line();

  // Lists the present and the missing nodes, for the error that ends the wait.
  [[nodiscard]] std::string summary() const { return view_.summary(); }

 private:
  void hear(const event::RollCallHeard& heard);
  void stop();
  void arm();
  void show(const std::string& text);

  asio::steady_timer timer_;
  RollCallView view_;
  Show show_;
};

}  // namespace muster
