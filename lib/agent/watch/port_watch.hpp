// SPDX-License-Identifier: Apache-2.0
// PortWatch: says once that a program has set MASTER_PORT itself and so waits in vain
// (port_trap.hpp) after nobody has come to the workers' store for 30 s. Looks again ever more
// rarely. A sink of events, since these say when workers start and end. Owned by the agent; one
// thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/watch/port_trap.hpp"
#include "base/time.hpp"

#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>

namespace muster {

class PortWatch final : public EventSink {
 public:
  // `visitors`: how many clients have come to the workers' store since the job began.
  PortWatch(asio::io_context& loop, EventStream& events, std::function<std::uint64_t()> visitors)
      : timer_(loop), events_(events), visitors_(std::move(visitors)) {}

  // EventSink
  void take(const JobEvent& event) override;

 private:
  void begin(const event::RoundBegun& begun);
  void wait();
  void look();
  [[nodiscard]] bool somebody_came() const;
  [[nodiscard]] bool tell(const WorkerEnvironment& worker);

  asio::steady_timer timer_;
  EventStream& events_;
  std::function<std::uint64_t()> visitors_;
  std::uint64_t visitors_before_ = 0;
  StoreFacts store_;
  Duration next_{};  // from one look to the next
  Duration waited_{};
  bool told_ = false;
};

}  // namespace muster
