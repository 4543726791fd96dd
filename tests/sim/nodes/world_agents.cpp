// SPDX-License-Identifier: Apache-2.0
// The agent around a core: executes effects, dies, leaves, is frozen.
#include "base/check.hpp"
#include "sim/nodes/describe.hpp"
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// One overload per effect.
struct Performer {
  NodesWorld& world;
  std::uint32_t agent;

  void bind(RoundId round) const {
    Agent& self = world.agents_[agent];
    if (self.proposed && self.proposed->id == round) {
      self.accepted = self.proposed;
      self.accepted_base = self.proposed_base;
    }
  }

  void operator()(const OpenLink& e) const { world.network_.open(agent, e); }

  void operator()(const SendMessage& e) const {
    Agent& self = world.agents_[agent];
    const auto* accept = std::get_if<Accept>(e.message.get());
    if (accept != nullptr) {
      bind(accept->round);
    }
    if (const auto* own = std::get_if<Propose>(e.message.get())) {  // its own Accept is not sent
      self.accepted = own->round;
      self.accepted_base = own->base;
    }
    if (e.link == 0) {
      world.complain("a message for the node itself reached the network");
    }
    world.network_.send(agent, e.link, e.message);
    const bool is_mend = std::holds_alternative<Mend>(*e.message);
    const int lost = is_mend ? world.options_.mend_lost_percent : world.options_.start_lost_percent;
    if ((is_mend || std::holds_alternative<Start>(*e.message)) && !world.calm_ &&
        world.random_.chance(lost)) {
      world.disturbances_.note(world.now(), Duration{});
      world.network_.reset_soon(agent, e.link);
    }
  }

  void operator()(const CloseLink& e) const { world.network_.close(agent, e.link); }

  void operator()(const HostEndpoints& /*e*/) const { world.host_endpoints(agent); }

  void operator()(const RecordRound& e) const { world.record(agent, e.memory); }

  void operator()(const BindEndpoint& /*e*/) const { world.bind_endpoint(agent); }

  // The first member is bound by the proposal before it can accept.
  void operator()(const OpenStore& e) const {
    bind(e.round);
    world.open_store(agent, e.round);
  }

  void operator()(const RunRound& e) const { world.run_round(agent, e); }

  void operator()(const RunMend& e) const { world.run_mend(agent, e); }

  void operator()(const RefuseMend& e) const { world.refuse_mend(agent, e); }

  void operator()(const StopWorkers& /*e*/) const { world.stop_workers(agent, false); }

  void operator()(const LeaseUntil& e) const { world.lease_until(agent, e.when); }

  void operator()(const UseJobKey& /*e*/) const {}

  void operator()(const FenceWorkers& /*e*/) const { world.stop_workers(agent, true); }

  void operator()(const ShowRollCall& /*e*/) const {}

  void operator()(const FindOwner& e) const { world.find_owner(agent, e.question); }

  void operator()(const VouchKnown& e) const { world.judge_client(e); }

  void operator()(const LookNow& e) const { world.look(agent, e.question); }

  void operator()(const JudgeNow& e) const { world.judge_hang(agent, e); }

  void operator()(const HearVerdict& e) const { world.hear_verdict(agent, e.said); }

  void operator()(const HearWaits& e) const { world.hear_waits(agent, e); }

  void operator()(const EndFinished& /*e*/) const { world.end(agent, Ending::finished, ""); }

  void operator()(const EndClosed& e) const {
    if (!world.checkers_.close()) {
      world.note_who_hears(agent);
    }
    if (!world.agents_[agent].out_of_touch) {
      world.checkers_.closed(e.close);
    }
    world.end(agent, Ending::closed, e.close.reason);
  }

  void operator()(const EndFailed& e) const {
    if (e.error.message.empty()) {
      world.complain("a node was refused without a reason");
    }
    world.end(agent, Ending::failed, e.error.message);
  }

  void operator()(const EndLeft& /*e*/) const { world.end(agent, Ending::left, ""); }

  void operator()(const SuspectNode& /*e*/) const {}

  void operator()(const EndReplaced& /*e*/) const { world.rejoin(agent); }

  void operator()(const SayNode& /*e*/) const {}
};

// Builds without assertions do not check on their own. Runs as rarely as in NodeCore.
void NodesWorld::check_core(Agent& agent) {
  constexpr std::size_t kShare = 16;
  if (kChecksInvariants || ++agent.unchecked_steps * kShare < agent.core->coordinator().size()) {
    return;
  }
  agent.unchecked_steps = 0;
  if (const std::string broken = agent.core->check_invariants(); !broken.empty()) {
    complain(fmt::format("{}: {}", agent.label, broken));
  }
}

void NodesWorld::step(std::uint32_t number, const NodeEvent& event) {
  Agent& agent = agents_[number];
  const auto* received = std::get_if<MessageReceived>(&event);
  if (received != nullptr && network_.dropped(number, received->link)) {
    return;
  }
  const auto* closed = std::get_if<LinkClosed>(&event);
  if (closed != nullptr && network_.dropped(number, closed->link)) {
    return;
  }
  if (std::holds_alternative<WorkersGone>(event) && agent.workers.alive) {
    return;  // from an earlier set
  }
  const bool is_shown = trace_.beats || (!is_beat(event) && (trace_.states || !is_tick(event)));
  if (trace_.on && is_shown) {
    note(agent.label, '<', words_of(event));
  }
  before(number, event);
  effects_.clear();
  const bool led = agent.core->coordinator().leads();
  agent.core->step(machines_[agent.machine].clock.local(queue_.now()), event, effects_);
  // A leader that has yielded knows that another one leads, even if that one never welcomes it.
  agent.met = agent.met || (led && !agent.core->coordinator().leads());
  trace_.mix(event.index());
  for (std::size_t i = 0; i < effects_.size() && lives(agent); ++i) {
    trace_.mix(effects_[i].index());
    if (trace_.on && (trace_.beats || !is_beat(effects_[i]))) {
      note(agent.label, '>', words_of(effects_[i]));
    }
    std::visit(Performer{*this, number}, effects_[i]);
  }
  if (trace_.on && trace_.states && is_shown) {
    note(agent.label, '=', agent.core->describe());
  }
  // Includes a round of which it received the start too late, and which it therefore did not run.
  agent.recalled = std::max(agent.recalled, agent.core->link().started());
  check_core(agent);
  if (lives(agent)) {
    arm(number);
  }
}

// Actions of the rest of the agent, and updates for the checkers.
void NodesWorld::before(std::uint32_t number, const NodeEvent& event) {
  Agent& agent = agents_[number];
  if (const auto* failed = std::get_if<WorkerFailedHere>(&event)) {
    if (!failed->message.consequence) {
      checkers_.worker_failed(failed->message.round, queue_.now());
    }
    if (agent.workers.alive && agent.workers.round->id == failed->message.round) {
      stop_workers(number, false);
    }
  } else if (std::holds_alternative<LeaveAsked>(event)) {
    checkers_.node_gone(agent.info.id, queue_.now());
    stop_workers(number, false);
  } else if (const auto* received = std::get_if<MessageReceived>(&event)) {
    const bool leads = std::holds_alternative<Pong>(*received->message) ||
                       std::holds_alternative<Welcome>(*received->message);
    agent.heard = leads ? queue_.now() : agent.heard;
    if (const auto* welcome = std::get_if<Welcome>(received->message.get())) {
      agent.follows = welcome->coordinator.id;
    }
    agent.met = agent.met || std::holds_alternative<Welcome>(*received->message);
    if (const auto* propose = std::get_if<Propose>(received->message.get())) {
      agent.proposed = propose->round;
      agent.proposed_base = propose->base;
    }
  }
}

// The job is over, and `closing` learns it first. A node that cannot be notified now, because it or
// its route is disturbed, may live until its join timeout.
void NodesWorld::note_who_hears(std::uint32_t closing) {
  const std::uint32_t from = agents_[closing].machine;
  for (Agent& agent : agents_) {
    const bool cut = !network_.reachable(from, agent.machine) ||
                     !network_.reachable(agent.machine, from) || network_.is_hurt();
    // To return it must connect, and a lost or slow request takes longer than the leader waits.
    const bool is_away = !agent.core->link().is_attached() &&
                         options_.dial_lost_percent + options_.dial_slow_percent > 0;
    const bool same =
        agent.follows == agents_[closing].follows || agent.info.id == agents_[closing].follows;
    agent.out_of_touch = !same || agent.frozen || machines_[agent.machine].frozen || cut ||
                         is_away || queue_.now() - agent.heard > options_.lease / 4;
  }
}

void NodesWorld::open_store(std::uint32_t number, RoundId round) {
  agents_[number].store_asked = round;
  const Duration delay = !calm_ && random_.chance(options_.store_slow_percent)
                             ? between(Duration{}, options_.lease)
                             : between(microseconds(50), milliseconds(1));
  post(delay, Kind::store_opens, number);
}

void NodesWorld::on_store(std::uint32_t number) {
  Agent& agent = agents_[number];
  const RoundId round = agent.store_asked;
  if (!calm_ && random_.chance(options_.store_fails_percent)) {
    to_agent(number, StoreFailed{round, Error{Errc::system, "simulated: no port"}});
    return;
  }
  ++next_store_;
  checkers_.store_opened(round, next_store_);
  to_agent(number, StoreOpened{round, machines_[agent.machine].address, next_store_});
}

void NodesWorld::lease_until(std::uint32_t number, TimePoint when) {
  Agent& agent = agents_[number];
  if (when == TimePoint::max()) {
    agent.guard_at.reset();
    return;
  }
  agent.guard_at = machines_[agent.machine].clock.reach(when);
  if (!agent.guard_posted) {
    agent.guard_posted = true;
    queue_.at(*agent.guard_at, Happening{Kind::guard, 0, number, 0, nullptr, nullptr});
  }
}

void NodesWorld::end(std::uint32_t number, Ending how, std::string text) {
  Agent& agent = agents_[number];
  agent.ending = how;
  agent.reason = std::move(text);
  agent.ended_at = queue_.now();
  agent.deferred.clear();
  if (how == Ending::finished || how == Ending::closed || how == Ending::left) {
    remove_file(number);
  }
  if (agent.workers.alive) {
    if (how == Ending::finished || how == Ending::left) {
      complain("an agent exited normally while its workers were running");
    }
    stop_workers(number, how == Ending::orphaned);
  } else {
    post(between(microseconds(10), milliseconds(2)), Kind::exited, number);
  }
}

// A spare takes its place. It starts again a moment later, so that the spare comes first.
void NodesWorld::rejoin(std::uint32_t number) {
  constexpr Duration kPause = std::chrono::seconds(1);
  const Agent& agent = agents_[number];
  checkers_.node_gone(agent.info.id, queue_.now());
  places_[agent.place].rejoins = true;
  post(kPause, Kind::start_place, agent.place);
  end(number, Ending::left, "");
}

// SIGKILL, or a voluntary exit. Its kernel closes its sockets. Its guard keeps its own listener
// until it has killed the workers.
void NodesWorld::kill_agent(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!agent.process) {
    return;
  }
  if (agent.ending == Ending::none) {
    note(agent.label, '!', "the agent is killed");
    if (!agent.workers.finished) {
      checkers_.node_gone(agent.info.id, queue_.now());
    }
  }
  if (agent.workers.alive && is_whole(*agent.workers.round)) {
    agent.killed_at = queue_.now();
  }
  agent.process = false;
  agent.deferred.clear();
  places_[agent.place].agent = kNobody;
  network_.stop_listening(number, agent.info.port);
  network_.process_gone(number, false);
  post(sweep_time(agent), Kind::swept, number);
}

void NodesWorld::on_swept(std::uint32_t number) {
  Agent& agent = agents_[number];
  agent.swept_at = queue_.now();
  if (agent.workers.alive) {
    on_workers_die(number, false, false);
  }
  network_.stop_listening(number);
  if (holds_file(number)) {
    files_[agent.file].holder = kNobody;
  }
}

void NodesWorld::lose_machine(std::uint32_t number) {
  MachineState& machine = machines_[number];
  note(fmt::format("n{}", number), '!', "the machine loses its power");
  machine.power = false;
  machine.frozen = false;
  machine.held.clear();
  network_.set_power(number, false);
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    Agent& agent = agents_[i];
    if (agent.machine != number) {
      continue;
    }
    if (lives(agent) && !agent.workers.finished) {
      checkers_.node_gone(agent.info.id, queue_.now());
    }
    if (agent.process) {
      network_.process_gone(i, true);
      places_[agent.place].agent = kNobody;
    }
    network_.stop_listening(i);
    lose_file(i);
    agent.process = false;
    agent.deferred.clear();
    agent.workers.alive = false;
    ++agent.workers.generation;
    count(i, false);
  }
}

void NodesWorld::boot(std::uint32_t number) {
  if (!machines_[number].power) {
    note(fmt::format("n{}", number), '!', "the machine boots");
    machines_[number].power = true;
    network_.set_power(number, true);
  }
}

void NodesWorld::freeze_agent(std::uint32_t number, Duration length) {
  Agent& agent = agents_[number];
  if (agent.frozen || !agent.process || agent.guard == Guard::dead) {
    return;
  }
  agent.frozen = true;
  disturbances_.note(now(), length);
  note(agent.label, '!', "the agent is frozen for " + muster::describe(length));
  post(length, Kind::thaw_agent, number);
}

void NodesWorld::freeze_machine(std::uint32_t number, Duration length) {
  MachineState& machine = machines_[number];
  if (machine.frozen || !machine.power) {
    return;
  }
  machine.frozen = true;
  disturbances_.note(now(), length);
  network_.set_frozen(number, true);
  note(fmt::format("n{}", number), '!', "the machine is frozen for " + muster::describe(length));
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].machine == number) {
      count(i, false);
    }
  }
  post(length, Kind::thaw_machine, number);
}

void NodesWorld::cut(std::vector<std::uint8_t> inside, bool one_way, Duration length) {
  if (trace_.on) {
    std::string names;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      names += inside[i] != 0 ? fmt::format(" n{}", i) : "";
    }
    note(
        "net",
        '!',
        fmt::format("cut{} for {}:{}", one_way ? " one way" : "", muster::describe(length), names));
  }
  disturbances_.note(now(), length);
  const std::uint64_t cut = network_.cut(std::move(inside), one_way);
  queue_.after(length, Happening{Kind::heal, 0, 0, cut, nullptr, nullptr});
}

void NodesWorld::hurt(std::uint32_t number, int how, Duration length) {
  disturbances_.note(now(), length);
  network_.hurt(number, how, length);
}

const Agent& NodesWorld::agent_of(NodeId id) const {
  return *std::ranges::find(agents_, id, [](const Agent& agent) { return agent.info.id; });
}

// All its members are running, except those that died a moment ago.
bool NodesWorld::is_whole(const Round& round) const {
  return std::ranges::all_of(round.members, [&](const NodeInfo& member) {
    const Agent& agent = agent_of(member.id);
    const Workers& workers = agent.workers;
    const bool runs = lives(agent) && workers.alive && workers.round->id == round.id &&
                      workers.since + options_.lease / 4 < now();
    return runs || (agent.killed_at && now() - *agent.killed_at < options_.lease / 20);
  });
}

bool NodesWorld::died_in_sight(const Round& round) const {
  VirtualTime first = VirtualTime::max();
  VirtualTime last{};
  for (const NodeInfo& member : round.members) {
    const Agent& agent = agent_of(member.id);
    if (!agent.killed_at && !lives(agent)) {
      return false;
    }
    first = std::min(first, agent.killed_at.value_or(first));
    last = std::max(last, agent.killed_at ? agent.swept_at : last);
  }
  const bool prompt = options_.dial_lost_percent == 0 && options_.dial_slow_percent == 0 &&
                      options_.latency_max < options_.lease / 200;
  return first == VirtualTime::max() ||
         (prompt && last - first < options_.lease / 20 &&
          disturbances_.none(first - options_.lease / 2, last + options_.lease));
}

void NodesWorld::leave(std::uint32_t number) {
  to_agent(number, LeaveAsked{"SIGTERM"});
}

void NodesWorld::calm() {
  calm_ = true;
  note("-", '!', "CALM: no more faults");
  network_.calm();
  for (std::uint32_t i = 0; i < machines_.size(); ++i) {
    thaw_machine(i);
  }
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    go_on(i);
    let_guard_run(i);
  }
}

}  // namespace muster::sim
