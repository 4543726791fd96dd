// SPDX-License-Identifier: Apache-2.0
// HangDuty: what the agent does about hangs, where --hang-timeout is on: tells the watch which
// workers run, tells everybody its verdict, and carries out --on-hang. A sink of events, since
// these say when workers start, end and are stopped. Owned by the agent; one thread.
#pragma once

#include "agent/agent.hpp"
#include "agent/event_stream.hpp"
#include "agent/supervisor.hpp"
#include "agent/worker_channel.hpp"
#include "hang/hang_watch.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// What it works on.
struct HangDutyParts {
  LinuxRunner& runner;
  EventStream& events;
  Supervisor& supervisor;
  WorkerChannel& channel;
};

class HangDuty final : public EventSink, public hang::HangSite {
 public:
  HangDuty(asio::io_context& loop, const AgentSetup& setup, HangDutyParts parts);

  // EventSink
  void take(const JobEvent& event) override;

  // Says so where the worker was ended because it hung.
  void add_evidence(WorkerFailure& failure) const;

  // hang::HangSite
  void found(hang::HangReport report) override;
  void goes_on(Duration quiet) override;
  void sees_nothing() override;
  std::vector<std::optional<std::uint64_t>> steps() override;

 private:
  void begin_round(const event::RoundBegun& begun);
  void worker_started(const event::WorkerStarted& started);
  void worker_ended(const event::WorkerEnded& ended);
  void workers_signalled(int signo);
  void write_files(hang::HangReport& report);
  void act(const hang::HangReport& report);
  void fail_worker(const hang::Verdict& verdict);

  const AgentSetup& setup_;
  HangDutyParts parts_;
  hang::HangWatch watch_;
  std::vector<hang::WatchedWorker> workers_;
  std::size_t expected_ = 0;
  int world_size_ = 0;
  int attempt_ = 0;
  std::string logs_;
  int found_ = 0;  // verdicts so far
  bool stopping_ = false;
  std::map<int, std::string> blamed_;  // by local rank, in this attempt
};

}  // namespace muster
