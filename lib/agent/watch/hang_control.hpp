// SPDX-License-Identifier: Apache-2.0
// HangControl: handles hangs if --hang-timeout is on. Passes the running workers to the watch,
// reports its verdict, and carries out --on-hang. It is an event sink, so that it is notified when
// workers start, exit and are stopped. In a multi-node job, all nodes inspect their workers and the
// leader decides. Owned by the agent; one thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/rounds/inquiry_listener.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "agent/watch/debug_watch.hpp"
#include "agent/workers/worker_channel.hpp"
#include "hang/hang_watch.hpp"
#include "hang/report/whole_job.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

class SharedRounds;

// The objects that HangControl uses.
struct HangControlParts {
  LinuxRunner& runner;
  EventStream& events;
  Supervisor& supervisor;
  WorkerChannel& channel;
  DebugWatch& debuggers;
  SharedRounds* others = nullptr;  // set in a multi-node job
};

// The py-spy that belongs to the workers' Python, or a name to look up in PATH.
[[nodiscard]] std::string py_spy_of(const AgentSetup& setup);

class HangControl final : public EventSink, public hang::HangSite, public InquiryListener {
 public:
  HangControl(asio::io_context& loop, const AgentSetup& setup, HangControlParts parts);

  // EventSink
  void take(const JobEvent& event) override;

  // InquiryListener
  void inquire(const InquiryStep& step) override;

  // Adds the hang to the failure of a worker that was blamed for it.
  void add_evidence(WorkerFailure& failure) const;

  // hang::HangSite
  void found(hang::HangReport report) override;
  void goes_on(Duration quiet) override;
  void sees_nothing() override;
  std::vector<std::optional<std::uint64_t>> steps() override;
  std::set<int> debugged() override;

 private:
  void begin_round(const event::RoundBegun& begun);
  void worker_ended(const event::WorkerEnded& ended);
  void workers_signalled(int signo);
  void write_files(hang::HangReport& report);
  void look(const Look& question);
  void judge(const JudgeNow& all);
  void hear(const Judged& said);
  void take_verdict(const hang::WholeVerdict& whole);
  void fail_worker(int rank, const hang::Verdict& verdict);

  const AgentSetup& setup_;
  HangControlParts parts_;
  hang::HangWatch watch_;
  int attempt_ = 0;
  std::string logs_;
  int found_ = 0;  // number of verdicts so far
  bool stopping_ = false;
  bool failing_ = false;       // a worker has failed, and not all work again
  bool ends_job_ = false;      // --on-hang=stop
  int killed_ = -1;            // local rank of the worker that --on-hang killed
  bool block_is_here_ = true;  // this node printed the last verdict
  // The inquiry that this node judged; 0 once the verdict has arrived.
  std::uint64_t judged_here_ = 0;
  bool said_nobody_judges_ = false;
  std::map<int, std::string> blamed_;  // verdict by local rank, for this attempt
};

}  // namespace muster
