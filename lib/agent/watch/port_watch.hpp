// SPDX-License-Identifier: Apache-2.0
// PortWatch: warns once if a program has set MASTER_PORT itself and therefore waits for a store
// that does not exist (port_trap.hpp). The first check happens when no client has connected to the
// workers' store for 30 s; later checks happen at growing intervals. It is an event sink, so that
// it is notified when workers start and exit. Owned by the agent; one thread.
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
  // `visitors` returns the number of clients that have connected to the store since the job began.
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
  Duration next_{};  // time until the next check
  Duration waited_{};
  bool told_ = false;
};

}  // namespace muster
