// SPDX-License-Identifier: Apache-2.0
// StepWatch: detects the first step of a round, and how much work the ranks lose when others are
// replaced, for the account of the job's time (lib/status). Workers report steps in shared memory
// and send no message, so this class polls until the first step. An event sink, which must be the
// last one. Owned by the agent; lives on its loop.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/workers/worker_channel.hpp"
#include "base/time.hpp"

#include <asio/steady_timer.hpp>

#include <optional>

namespace asio {
class io_context;
}

namespace muster {

class StepWatch final : public EventSink {
 public:
  StepWatch(asio::io_context& loop, EventStream& events, WorkerChannel& channel);

  void take(const JobEvent& event) override;

 private:
  void begin(TimePoint now);
  void look_later();
  void look();
  void note_last_step();
  void tell_rolled_back();

  EventStream& events_;
  WorkerChannel& channel_;
  asio::steady_timer timer_;
  TimePoint begun_{};                   // the start of the round's last worker
  bool has_stepped_ = false;            // in this round
  std::optional<TimePoint> last_step_;  // of any worker on this node
};

}  // namespace muster
