// SPDX-License-Identifier: Apache-2.0
// MpiWatch: warns once if the workers call MPI_Init. muster is not an MPI launcher, so each worker
// is alone in its MPI_COMM_WORLD and computes the whole problem. It is an event sink, so that it is
// notified when workers start and exit. Owned by the agent; one thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/time.hpp"
#include "config/launch_config.hpp"

#include <asio/steady_timer.hpp>

namespace muster {

class MpiWatch final : public EventSink {
 public:
  MpiWatch(asio::io_context& loop, EventStream& events, const LaunchConfig& config)
      : timer_(loop), events_(events), config_(config) {}

  // EventSink
  void take(const JobEvent& event) override;

 private:
  void begin(const Assignment& given);
  void wait();
  void look();

  asio::steady_timer timer_;
  EventStream& events_;
  const LaunchConfig& config_;
  int world_size_ = 0;
  Duration pause_{};  // time until the next check
  bool done_ = false;
};

}  // namespace muster
