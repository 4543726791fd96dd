// SPDX-License-Identifier: Apache-2.0
// CheckControl: --check and musterctl check. Before the first round of this node, before a round
// with new nodes, and on request, it measures this node and compares it with the others. In a
// multi-node job, the leader first collects the figures and tells all nodes their ports, and the
// nodes measure the links between them. Then the leader judges, and all nodes receive the verdict.
// With --check=require, bad nodes leave the job before their workers start. Owned by the agent;
// lives on its loop.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/checks/node_probe.hpp"
#include "agent/checks/round_gate.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/rounds/inquiry_listener.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "base/time.hpp"
#include "check/judge.hpp"
#include "check/link_ports.hpp"
#include "io/held_port.hpp"

#include <asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class SharedRounds;

// The time limit of the whole check. Workers then start without a verdict.
inline constexpr Duration kCheckTimeout = std::chrono::seconds(5);

// If less time is left, links are not measured, so that the verdict about the nodes is in time:
// the next request (kBetweenInquiries), the measurement (kLinksTimeout), and the messages.
inline constexpr Duration kTimeForLinks = std::chrono::milliseconds(2500);

// A node that has received no verdict asks again after this time.
inline constexpr Duration kCheckRepeat = std::chrono::milliseconds(500);

// A bad node that the others have not released by then exits anyway. The other nodes wait this long
// for the round without the bad nodes.
inline constexpr Duration kExclusionTimeout = std::chrono::seconds(3);

// The objects that CheckControl uses.
struct CheckParts {
  EventStream& events;
  RoundGate& gate;
  const Supervisor& supervisor;
  RoundSource& rounds;
  SharedRounds* others = nullptr;  // set in a multi-node job
  std::function<void(pid_t)> spare;
};

class CheckControl final : public EventSink, public InquiryListener, public GateSite {
 public:
  CheckControl(asio::io_context& loop, const AgentSetup& setup, CheckParts parts);

  // Begins to measure this node while it waits for the others. Call once.
  void start();

  // EventSink
  void take(const JobEvent& event) override;

  // Checks the nodes of the round again. The verdict is the next event NodesChecked, on all nodes.
  // Returns an empty string, or the reason why no check can begin.
  [[nodiscard]] std::string request();

  // InquiryListener
  void inquire(const InquiryStep& step) override;

  // GateSite
  [[nodiscard]] bool needs_check() override;
  void begin_check() override;
  void end_check() override;
  [[nodiscard]] bool may_start() override;

 private:
  void begin_repeat(const std::string& id);
  void measure();
  void measured();
  void ask();
  void look(const Look& question);
  void answer_all();
  [[nodiscard]] bool may_answer(const Look& question) const;
  void answer(const Look& question);
  void judge(const JudgeNow& all);
  void hear(const std::string& verdict);
  void hold_port();
  void measure_links(const check::LinkPorts& ports);
  void decide(const check::Verdict& verdict);
  void print_findings(const check::Verdict& verdict) const;
  void exclude(const check::Verdict& verdict);
  void after(Duration time, std::function<void()> call);
  [[nodiscard]] bool has_workers() const;

  [[nodiscard]] bool is_required() const { return setup_.config.check == NodeCheck::require; }

  const AgentSetup& setup_;
  CheckParts parts_;
  NodeProbe probe_;
  asio::steady_timer repeat_timer_;
  asio::steady_timer limit_timer_;
  bool is_checked_ = false;     // this node has received a verdict
  bool is_waiting_ = false;     // the gate holds a round for a verdict
  bool has_newcomers_ = false;  // in the round
  TimePoint begun_{};
  // The last requested check of the round, on any node.
  std::string repeat_id_;                // empty if there was none
  bool is_repeating_ = false;            // its verdict is awaited
  std::optional<TimePoint> asks_until_;  // it was requested on this node
  // The round and what its leader has asked.
  int index_ = 0;  // of this node in the round
  std::vector<RoundNode> nodes_;
  std::vector<Look> questions_;   // to answer when this node has been measured
  double clock_offset_ = 0;       // from the node that has asked
  std::optional<HeldPort> port_;  // for measurements by other nodes
  bool measures_links_ = false;
  std::optional<check::NodeFigures> links_;
};

}  // namespace muster
