// SPDX-License-Identifier: Apache-2.0
// StragglerWatch: reads how long the workers on this node have waited for each other, at the
// interval that its core requests, and reports the slow ranks. In a multi-node job, each node sends
// its times to the leader, which decides. Does nothing if no worker uses the collective library. It
// is an event sink, so that it is notified when workers start and exit. Owned by the agent; one
// thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/rounds/wait_listener.hpp"
#include "agent/workers/worker_channel.hpp"
#include "status/job_status.hpp"
#include "straggler/job_waits.hpp"
#include "straggler/straggler_core.hpp"

#include <asio/steady_timer.hpp>

#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

class LinuxRunner;
class SharedRounds;

// The objects that StragglerWatch uses.
struct StragglerWatchParts {
  LinuxRunner& runner;
  EventStream& events;
  WorkerChannel& channel;
  SharedRounds* others = nullptr;  // set in a multi-node job
};

class StragglerWatch final : public EventSink, public WaitListener {
 public:
  StragglerWatch(asio::io_context& loop, StragglerWatchParts parts);

  // EventSink
  void take(const JobEvent& event) override;

  // WaitListener
  void hear(const HearWaits& heard) override;

  // The wait times of each worker, by local rank; none if the worker has called no operation.
  [[nodiscard]] std::vector<std::optional<WaitStatus>> waits() const;

 private:
  void begin_round(const event::RoundBegun& begun);
  void worker_started(const event::WorkerStarted& started);
  void pause();
  void stop();
  [[nodiscard]] Duration look_after() const;
  void look_later();
  void look();
  [[nodiscard]] std::vector<straggler::RankWaits> read(const std::vector<int>& recorders);
  void tell_others(const std::vector<straggler::RankWaits>& seen);
  [[nodiscard]] std::string label_of(const HearWaits& heard) const;
  void judge_job();

  StragglerWatchParts parts_;
  asio::steady_timer timer_;
  straggler::StragglerCore core_;
  std::map<pid_t, int> ranks_;      // rank of each running worker, by pid
  std::map<int, int> local_ranks_;  // local rank of each worker, by rank
  std::map<int, double> waited_;    // total wait time in seconds, by rank
  std::size_t expected_ = 0;
  int world_size_ = 0;
  TimePoint begun_{};  // when the last worker was started

  // for multi-node jobs
  bool is_shared_ = false;             // the round has other nodes
  std::map<int, std::string> labels_;  // labels of the nodes in the round, by first rank
  RoundId heard_of_;                   // the round that the received times belong to
  RoundId over_;                       // a round whose workers this node is stopping
  straggler::JobWaits job_waits_;      // used if this node is the leader
  straggler::StragglerCore job_core_;
};

}  // namespace muster
