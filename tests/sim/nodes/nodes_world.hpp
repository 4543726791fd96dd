// SPDX-License-Identifier: Apache-2.0
// NodesWorld: a job of many nodes in virtual time: real NodeCores, a simulated network, a model of
// how agent and guard treat a node's workers, and checkers that run after every event. Mechanism
// only: its callers choose the faults (faults.cpp, transcripts, scale). Resource.
#pragma once

#include "sim/nodes/checkers.hpp"
#include "sim/nodes/disturbances.hpp"
#include "sim/nodes/model.hpp"
#include "sim/nodes/network.hpp"
#include "sim/nodes/options.hpp"
#include "sim/nodes/trace.hpp"
#include "sim/random.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster::sim {

inline constexpr std::uint16_t kEndpointPort = 29400;

class NodesWorld final : public NetworkUser {
 public:
  NodesWorld(const NodesOptions& options, std::uint64_t seed, Trace& trace);

  // False if no event is left or a rule is violated.
  bool run_next();
  // Runs until then, or until a rule is violated.
  void run_until(VirtualTime when);

  // -- faults and events --
  void start(std::uint32_t place);
  void kill_agent(std::uint32_t agent);
  void lose_machine(std::uint32_t machine);
  void boot(std::uint32_t machine);
  void freeze_agent(std::uint32_t agent, Duration length);
  void freeze_machine(std::uint32_t machine, Duration length);
  // SIGKILL. An agent is not stopped after its guard has died, because nothing would continue it
  // (lib/process/README.md, "Two processes, so that no worker survives").
  void kill_guard(std::uint32_t agent);
  void stop_guard(std::uint32_t agent, Duration length);
  void cut(std::vector<std::uint8_t> inside, bool one_way, Duration length);
  void hurt(std::uint32_t agent, int how, Duration length);
  void leave(std::uint32_t agent);
  void fail_worker(std::uint32_t agent);
  void finish_workers(std::uint32_t agent, Duration after);
  void post(Duration delay, Kind kind, std::uint32_t subject);
  // Ends all faults; heals cuts and thaws frozen machines and agents.
  void calm();
  // Makes the workers of a running round hang, during the calm period.
  void check_hang(const Round& round);
  // Gives notice of a preemption, during the calm period.
  void check_preemption(const Round& round);
  // Checks that one node receives the wait times of all nodes.
  void check_waits(const Round& round);
  // Checks that a failed rank is replaced.
  void check_mends(const Round& round);

  // -- observable state --
  [[nodiscard]] VirtualTime now() const { return queue_.now(); }

  [[nodiscard]] const std::deque<Agent>& agents() const { return agents_; }

  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

  [[nodiscard]] const std::vector<RecordFile>& files() const { return files_; }

  [[nodiscard]] const std::vector<MachineState>& machines() const { return machines_; }

  [[nodiscard]] const Checkers& checkers() const { return checkers_; }

  [[nodiscard]] Network& network() { return network_; }

  [[nodiscard]] std::uint64_t events() const { return queue_.popped(); }

  [[nodiscard]] const Agent& agent_of(NodeId id) const;
  [[nodiscard]] bool lives(const Agent& agent) const;
  // True if no machine and no agent is frozen.
  [[nodiscard]] bool awake() const;
  // True if a live agent has one of the endpoints, so that fresh nodes can find the others.
  [[nodiscard]] bool is_endpoint_open() const;
  // The latest round that a live node was told to run.
  [[nodiscard]] RoundId remembered() const;
  // The latest round that a live node knows from a previous agent's record.
  [[nodiscard]] RoundId recalled() const;

  // True if a round binds it: it was told to run one, or took part in forming one.
  [[nodiscard]] bool knows_a_round(const Agent& agent) const;
  // True if a guard has not yet killed all workers of its dead agent.
  [[nodiscard]] bool is_sweeping() const;
  // True for any live node.
  [[nodiscard]] bool is_any_round_known() const;
  // The file that an agent would lock if it started there now, or kNobody.
  [[nodiscard]] std::uint32_t free_file(std::uint32_t place) const;
  // True if the agent that wrote a record is dead.
  [[nodiscard]] bool is_record_away() const;

  // True if the dead members died almost at once and in sight of the live ones.
  [[nodiscard]] bool died_in_sight(const Round& round) const;

  void complain(const std::string& problem);
  void note(std::string_view node, char letter, std::string_view text) const;

  void on_network(std::uint32_t agent, NodeEvent event) override;

 private:
  friend struct Performer;

  [[nodiscard]] bool is_whole(const Round& round) const;
  [[nodiscard]] NodeSettings settings(bool stranger) const;
  void make_machines();
  void handle(Happening& what);
  void handle_agent(Happening& what);
  void handle_guard(Kind kind, std::uint32_t agent);
  void to_agent(std::uint32_t agent, NodeEvent event);
  void check_core(Agent& agent);
  void step(std::uint32_t agent, const NodeEvent& event);
  void before(std::uint32_t agent, const NodeEvent& event);
  void note_who_hears(std::uint32_t closing);
  void know_listener(std::uint32_t agent);
  void arm(std::uint32_t agent);
  void on_tick(Happening& what);
  void go_on(std::uint32_t agent);
  void thaw_machine(std::uint32_t machine);
  void count(std::uint32_t agent, bool running);
  Duration between(Duration low, Duration high);

  // effects, and their consequences
  void run_round(std::uint32_t agent, const RunRound& run);
  void open_store(std::uint32_t agent, RoundId round);
  void on_store(std::uint32_t agent);
  void lease_until(std::uint32_t agent, TimePoint when);
  void end(std::uint32_t agent, Ending how, std::string text);
  void rejoin(std::uint32_t agent);
  void host_endpoints(std::uint32_t agent);
  void bind_endpoint(std::uint32_t agent);
  void on_endpoint_bound(std::uint32_t agent);
  void take_file(std::uint32_t agent);
  [[nodiscard]] bool holds_file(std::uint32_t agent) const;
  void record(std::uint32_t agent, const Memory& memory);
  void on_recorded(std::uint32_t agent);
  void lose_file(std::uint32_t agent);
  void remove_file(std::uint32_t agent);

  // clients of the workers' store (world_clients.cpp)
  struct Client {
    std::uint32_t agent = kNobody;  // the agent of the worker
    std::uint64_t generation = 0;
    bool judged = false;
  };

  void expect_client(std::uint32_t agent);
  void connect_clients(std::uint32_t agent);
  void find_owner(std::uint32_t agent, const Vouch& question);
  void answer_owner(std::uint32_t agent, const Vouch& question);
  void judge_client(const VouchKnown& known);
  [[nodiscard]] bool is_worker_of(std::uint32_t agent, const Client& client) const;

  // An event of workers: they hang, wait, or enter an epoch.
  void handle_report(const Happening& what, bool current);

  // inquiries into hangs (world_hangs.cpp)
  void expect_stalls(std::uint32_t agent);
  void look(std::uint32_t agent, const Look& question);
  void tell_looked(std::uint32_t agent, const Look& question);
  void judge_hang(std::uint32_t agent, const JudgeNow& all);
  void hear_verdict(std::uint32_t agent, const Judged& said);
  [[nodiscard]] std::string stop_at_step(std::uint32_t agent);
  void judge_preemption(std::uint32_t agent, const JudgeNow& all);
  void hear_save_step(std::uint32_t agent, const Judged& said);
  void check_save_steps(const Round& round, const std::vector<std::uint32_t>& members);

  // how long workers wait (world_waits.cpp)
  void expect_waits(std::uint32_t agent);
  void tell_waits(std::uint32_t agent);
  void hear_waits(std::uint32_t agent, const HearWaits& heard);

  // replacing ranks (world_mends.cpp)
  void expect_entry(std::uint32_t agent);
  void on_entry(std::uint32_t agent);
  void lack(std::uint32_t agent, const Failed& cause);
  void run_mend(std::uint32_t agent, const RunMend& run);
  void refuse_mend(std::uint32_t agent, const RefuseMend& refused);

  // workers
  RoundPlan& plan_of(RoundId round, std::size_t members);
  void stop_workers(std::uint32_t agent, bool kill);
  void on_worker_fails(std::uint32_t agent);
  void on_workers_die(std::uint32_t agent, bool by_guard, bool finished);
  void on_noticed(std::uint32_t agent, int how, std::uint64_t generation);
  [[nodiscard]] WorkerFailedHere failure_of(std::uint32_t agent, int exit_code);
  void report_failure(std::uint32_t agent, int exit_code);
  void on_guard(std::uint32_t agent);
  void on_orphaned(std::uint32_t agent);
  void let_guard_run(std::uint32_t agent);
  void excuse(std::uint32_t agent);
  [[nodiscard]] VirtualTime next_wake(const Agent& agent) const;
  [[nodiscard]] Duration sweep_time(const Agent& agent);
  void on_swept(std::uint32_t agent);
  void cascade(RoundId round);

  [[nodiscard]] const std::string& name_of(std::uint32_t agent) const {
    return agents_[agent].label;
  }

  const NodesOptions& options_;
  Random random_;
  EventQueue queue_;
  Trace& trace_;
  Checkers checkers_;
  Network network_;
  Disturbances disturbances_;
  std::vector<MachineState> machines_;
  std::vector<Place> places_;
  std::vector<RecordFile> files_;
  std::deque<Agent> agents_;
  std::map<RoundId, RoundPlan> plans_;
  NodeEffects effects_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> verdicts_;  // by judging node and inquiry
  // The last wait numbers that each node received, by coordinator, round and rank.
  std::map<std::uint32_t, std::map<std::pair<RoundId, int>, std::uint64_t>> waits_heard_;
  std::uint64_t waits_told_ = 0;
  std::uint16_t next_store_ = 30000;
  bool calm_ = false;
};

}  // namespace muster::sim
