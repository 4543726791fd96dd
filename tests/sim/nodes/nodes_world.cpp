// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/nodes_world.hpp"

#include "base/mark.hpp"
#include "sim/nodes/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A run with more events than this is considered an endless loop.
constexpr std::uint64_t kEventsMin = 500'000;
constexpr std::uint64_t kEventsEach = 20'000;

NetworkOptions network_options(const NodesOptions& options) {
  NetworkOptions network;
  network.latency_min = std::min<Duration>(microseconds(50), options.latency_max);
  network.latency_max = options.latency_max;
  network.tcp_timeout = options.tcp_timeout;
  network.resend_max = options.lease / 5;
  network.dial_lost_percent = options.dial_lost_percent;
  network.dial_slow_percent = options.dial_slow_percent;
  network.bytes = options.bytes;
  return network;
}

}  // namespace

NodesWorld::NodesWorld(const NodesOptions& options, std::uint64_t seed, Trace& trace)
    : options_(options),
      random_(seed),
      trace_(trace),
      checkers_(options),
      network_(queue_, random_, *this, network_options(options)) {
  make_machines();
}

void NodesWorld::make_machines() {
  const auto each = static_cast<std::uint32_t>(options_.agents_per_machine);
  for (std::uint32_t i = 0; i < options_.nodes; ++i) {
    if (i % each == 0) {
      const std::uint32_t machine = i / each;
      MachineState& state = machines_.emplace_back();
      state.address = fmt::format("10.{}.{}.{}", machine >> 16, machine >> 8 & 255, machine & 255);
      state.clock.offset = std::chrono::seconds(random_.between(1, 100'000'000));
      state.clock.ppm = random_.between(-options_.ppm_max, options_.ppm_max);
      network_.add_machine(fmt::format("n{}", machine), state.address);
    }
    files_.emplace_back();
    Place& place = places_.emplace_back();
    place.machine = i / each;
    place.name = fmt::format("n{}", i / each);
    place.has_disk = options_.disks_percent == 100 || (options_.disks_percent > 0 && i % 2 == 0);
    place.node_rank = options_.ranked ? static_cast<std::int32_t>(i) : -1;
  }
}

Duration NodesWorld::between(Duration low, Duration high) {
  return Duration(random_.between(low.count(), high.count()));
}

bool NodesWorld::lives(const Agent& agent) const {
  return agent.process && agent.ending == Ending::none;
}

bool NodesWorld::awake() const {
  return std::ranges::none_of(machines_, [](const auto& m) { return m.frozen; }) &&
         std::ranges::none_of(agents_, [](const auto& a) { return a.process && a.frozen; });
}

bool NodesWorld::is_endpoint_open() const {
  for (std::uint32_t i = 0; i < machines_.size() && static_cast<int>(i) < options_.endpoints; ++i) {
    const std::uint32_t agent = network_.listener(i, kEndpointPort);
    if (machines_[i].power && agent != kNobody && lives(agents_[agent])) {
      return true;
    }
  }
  return false;
}

RoundId NodesWorld::remembered() const {
  RoundId latest;
  for (const Agent& agent : agents_) {
    if (lives(agent) && agent.told > latest) {
      latest = agent.told;
    }
  }
  return latest;
}

RoundId NodesWorld::recalled() const {
  RoundId latest;
  for (const Agent& agent : agents_) {
    latest = lives(agent) ? std::max(latest, agent.recalled) : latest;
  }
  return latest;
}

bool NodesWorld::knows_a_round(const Agent& agent) const {
  return lives(agent) && (agent.told.number > 0 || agent.accepted);
}

bool NodesWorld::is_sweeping() const {
  return std::ranges::any_of(agents_, [](const auto& a) { return !a.process && a.workers.alive; });
}

bool NodesWorld::is_any_round_known() const {
  return std::ranges::any_of(files_, [](const auto& file) { return file.content.has_value(); }) ||
         std::ranges::any_of(agents_, [this](const Agent& agent) { return knows_a_round(agent); });
}

void NodesWorld::complain(const std::string& problem) {
  checkers_.complain(problem);
  if (trace_.on) {
    note("-", '!', "PROBLEM " + problem);
  }
}

void NodesWorld::note(std::string_view node, char letter, std::string_view text) const {
  if (trace_.on) {
    trace_.line(queue_.now(), node, letter, text);
  }
}

bool NodesWorld::run_next() {
  if (queue_.empty() || !checkers_.problem().empty()) {
    return false;
  }
  Happening what = queue_.pop();
  handle(what);
  if (queue_.popped() > kEventsMin + kEventsEach * options_.nodes) {
    complain("too many events: endless loop?");
  }
  return checkers_.problem().empty();
}

void NodesWorld::run_until(VirtualTime when) {
  while (!queue_.empty() && queue_.next_time() <= when && run_next()) {
  }
  if (checkers_.problem().empty()) {
    queue_.move_to(when);
  }
}

void NodesWorld::post(Duration delay, Kind kind, std::uint32_t subject) {
  queue_.after(delay, Happening{kind, 0, subject, 0, nullptr, nullptr});
}

void NodesWorld::handle(Happening& what) {
  trace_.mix(static_cast<std::uint64_t>(queue_.now().time_since_epoch().count()));
  trace_.mix(std::uint64_t{what.subject} << 8 | static_cast<std::uint64_t>(what.kind));
  switch (what.kind) {
    case Kind::syn:
    case Kind::opened:
    case Kind::refused:
    case Kind::dial_over:
    case Kind::arrival:
    case Kind::flush:
    case Kind::overdue:
      network_.handle(what);
      break;
    case Kind::start_place:
      start(what.subject);
      break;
    case Kind::thaw_machine:
      thaw_machine(what.subject);
      break;
    case Kind::heal:
      note("net", '!', "a cut heals");
      network_.heal(what.detail);
      break;
    case Kind::boot:
      boot(what.subject);
      break;
    default:
      handle_agent(what);
      break;
  }
}

void NodesWorld::handle_agent(Happening& what) {
  const std::uint32_t agent = what.subject;
  MachineState& machine = machines_[agents_[agent].machine];
  if (machine.frozen) {
    machine.held.push_back(std::move(what));
    return;
  }
  Workers& workers = agents_[agent].workers;
  const bool current = what.detail == workers.generation;
  switch (what.kind) {
    case Kind::tick:
      on_tick(what);
      break;
    case Kind::worker_fails:
      if (current && !calm_) {
        on_worker_fails(agent);
      }
      break;
    case Kind::workers_die:
    case Kind::workers_finish:
      if (current) {
        on_workers_die(agent, what.side != 0, what.kind == Kind::workers_finish);
      }
      break;
    case Kind::noticed:
      on_noticed(agent, what.side, what.detail);
      break;
    case Kind::guard:
    case Kind::guard_goes_on:
    case Kind::guard_dies:
    case Kind::orphaned:
      handle_guard(what.kind, agent);
      break;
    case Kind::swept:
      on_swept(agent);
      break;
    case Kind::exited:
      kill_agent(agent);
      break;
    case Kind::store_opens:
      on_store(agent);
      break;
    case Kind::endpoint_bound:
    case Kind::recorded:
      what.kind == Kind::recorded ? on_recorded(agent) : on_endpoint_bound(agent);
      break;
    case Kind::leaves:
      leave(agent);
      break;
    case Kind::client_connects:
      if (current) {
        connect_clients(agent);
      }
      break;
    case Kind::owner_found:
      answer_owner(agent, std::get<Vouch>(*what.message));
      break;
    case Kind::thaw_agent:
      go_on(agent);
      break;
    case Kind::thaw_over:
      count(agent, workers.alive);
      break;
    default:
      handle_report(what, current);
      break;
  }
}

void NodesWorld::handle_guard(Kind kind, std::uint32_t agent) {
  if (kind == Kind::guard) {
    on_guard(agent);
  } else if (kind == Kind::guard_goes_on) {
    let_guard_run(agent);
  } else if (kind == Kind::guard_dies) {
    kill_guard(agent);
  } else {
    on_orphaned(agent);
  }
}

void NodesWorld::start(std::uint32_t number) {
  Place& place = places_[number];
  const MachineState& machine = machines_[place.machine];
  if (place.agent != kNobody || !machine.power || machine.frozen) {
    return;
  }
  const auto agent = static_cast<std::uint32_t>(agents_.size());
  place.agent = agent;
  ++place.started;
  // Nodes that were not notified of the end may continue and admit it.
  const bool is_late = checkers_.close().has_value();
  Agent& made = agents_.emplace_back();
  made.place = number;
  made.machine = place.machine;
  made.out_of_touch = is_late;
  made.info.id = random_.next() | 1;
  made.info.name = place.name;
  made.info.node_rank = place.node_rank;
  // "n3", "n3.1" for the second place on its machine, "n3'2" for its second incarnation.
  const std::uint32_t beside = number % static_cast<std::uint32_t>(options_.agents_per_machine);
  made.label = place.name + (beside > 0 ? fmt::format(".{}", beside) : "") +
               (place.started > 1 ? fmt::format("'{}", place.started) : "");
  network_.add_agent(agent, place.machine);
  made.rejoins = std::exchange(place.rejoins, false);
  made.stranger = place.machine != 0 && random_.chance(options_.stranger_percent) && !made.rejoins;
  take_file(agent);
  NodeSettings chosen = settings(made.stranger);
  chosen.records = made.file != kNobody;
  chosen.rejoins = made.rejoins;
  const bool is_listed = options_.blames && number % 7 == 1;
  chosen.reserve = made.rejoins || is_listed ? options_.cool_down : Duration{};
  made.core = std::make_unique<NodeCore>(chosen, made.info, random_.next());
  host_endpoints(agent);
  note(made.label, '!', fmt::format("an agent starts: {:x}", made.info.id & 0xffff));
  if (made.hosts || random_.chance(30) ||
      !made.formerly.empty()) {  // other agents learn it from their first connection
    know_listener(agent);
  }
  NodeStarted started{made.hosts, !made.hosts && made.machine == 0};
  if (made.file != kNobody) {
    started.memory = files_[made.file].content;
    made.recalled = started.memory ? started.memory->started->id : RoundId{};
  }
  to_agent(agent, std::move(started));
}

// The lock is free once the previous agent's guard has killed its workers, or has died with its
// machine. An agent without a record still creates one.
void NodesWorld::take_file(std::uint32_t number) {
  Agent& agent = agents_[number];
  agent.file = agent.stranger ? kNobody : free_file(agent.place);
  if (agent.file == kNobody) {
    return;
  }
  RecordFile& file = files_[agent.file];
  file.holder = number;
  if (file.content) {
    if (agent.file != agent.place) {
      MUSTER_MARK("a record of another machine is taken");
    }
    agent.formerly = {file.content->ids.begin(), file.content->ids.end()};
    agent.inherited = std::max(file.content->started->id, file.content->accepted->id);
    const bool has_accepted = file.content->accepted->id.number > 0;
    agent.accepted = has_accepted ? file.content->accepted : file.content->started;
    agent.accepted_base = file.content->base;
  }
}

// As in RoundRecord, a file with a record comes first.
std::uint32_t NodesWorld::free_file(std::uint32_t place) const {
  const auto is_free = [this](std::uint32_t file) { return files_[file].holder == kNobody; };
  if (!places_[place].has_disk) {
    return kNobody;
  }
  if (!options_.shared_home) {
    return is_free(place) ? place : kNobody;
  }
  std::uint32_t found = kNobody;
  for (std::uint32_t file = 0; file < files_.size(); ++file) {
    const bool better = found == kNobody || (files_[file].content && !files_[found].content);
    found = is_free(file) && better ? file : found;
  }
  return found;
}

bool NodesWorld::is_record_away() const {
  return std::ranges::any_of(files_, [this](const RecordFile& file) {
    return file.content && (file.holder == kNobody || !agents_[file.holder].process);
  });
}

bool NodesWorld::holds_file(std::uint32_t number) const {
  const std::uint32_t file = agents_[number].file;
  return file != kNobody && files_[file].holder == number;
}

void NodesWorld::record(std::uint32_t number, const Memory& memory) {
  agents_[number].recording.push_back(memory);
  post(between(microseconds(50), options_.disk_slowest), Kind::recorded, number);
}

void NodesWorld::on_recorded(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (agent.recording.empty()) {
    return;
  }
  const Memory memory = std::move(agent.recording.front());
  agent.recording.pop_front();
  if (agent.process && holds_file(number)) {
    files_[agent.file].content = memory;
    to_agent(number, RoundRecorded{memory.accepted->id});
  }
}

// The record being written is on disk or not, or the whole file is destroyed.
void NodesWorld::lose_file(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!holds_file(number)) {
    return;
  }
  RecordFile& file = files_[agent.file];
  file.holder = kNobody;
  if (!agent.recording.empty() && random_.chance(options_.torn_percent)) {
    MUSTER_MARK("a file is torn");
    file.content.reset();
  } else if (!agent.recording.empty() && random_.chance(50)) {
    file.content = agent.recording.front();
  }
  agent.recording.clear();
}

// An agent that exits normally removes its file.
void NodesWorld::remove_file(std::uint32_t number) {
  if (holds_file(number)) {
    files_[agents_[number].file].content.reset();
  }
}

NodeSettings NodesWorld::settings(bool stranger) const {
  NodeSettings settings;
  settings.terms.job_id = "job";
  settings.terms.backend = "c10d";
  settings.terms.nodes_min = options_.min;
  settings.terms.nodes_max = options_.max;
  settings.terms.max_restarts = options_.max_restarts + (stranger ? 1 : 0);
  settings.terms.version = "1";
  settings.terms.mends = options_.mends;
  for (int i = 0; i < options_.endpoints && i < static_cast<int>(machines_.size()); ++i) {
    settings.endpoints.push_back(Endpoint{fmt::format("n{}", i), kEndpointPort});
  }
  settings.join_timeout = options_.join_timeout;
  settings.last_call = options_.last_call;
  settings.lease = options_.lease;
  settings.join_delay = options_.join_delay;
  settings.cool_down = options_.cool_down;
  return settings;
}

// At startup an agent binds the endpoints that are addresses of its machine. A successor retries,
// because one may have become free.
void NodesWorld::host_endpoints(std::uint32_t number) {
  Agent& agent = agents_[number];
  const bool taken = agent.machine == 0 && now() < VirtualTime{} + options_.endpoint_taken;
  if (!taken && static_cast<int>(agent.machine) < options_.endpoints &&
      network_.port_free(agent.machine, kEndpointPort)) {
    network_.listen(agent.machine, kEndpointPort, number);
    agent.hosts = agent.machine == 0;
  }
}

// Excludes founding a job next to a running one, as in Faults::may_found.
void NodesWorld::bind_endpoint(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (agent.hosts || (is_any_round_known() && !(network_.whole() && awake()))) {
    return;
  }
  host_endpoints(number);
  if (agent.hosts) {
    MUSTER_MARK("an endpoint that was taken is bound");
    agent.met = false;
    post(between(microseconds(10), milliseconds(1)), Kind::endpoint_bound, number);
  }
}

void NodesWorld::on_endpoint_bound(std::uint32_t number) {
  know_listener(number);
  to_agent(number, EndpointBound{});
}

void NodesWorld::know_listener(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (agent.listener_known || !agent.process || agent.frozen) {
    return;
  }
  agent.listener_known = true;
  agent.info.address = machines_[agent.machine].address;
  agent.info.port = static_cast<std::uint16_t>(30000 + number % 30000);
  network_.listen(agent.machine, agent.info.port, number);
  to_agent(number, ListenerKnown{agent.info.address, agent.info.port});
}

void NodesWorld::on_network(std::uint32_t agent, NodeEvent event) {
  if (std::holds_alternative<LinkOpened>(event)) {
    know_listener(agent);
  }
  to_agent(agent, std::move(event));
}

void NodesWorld::to_agent(std::uint32_t number, NodeEvent event) {
  Agent& agent = agents_[number];
  if (!lives(agent)) {
    return;
  }
  if (agent.frozen || machines_[agent.machine].frozen) {
    agent.deferred.push_back(std::move(event));
    return;
  }
  step(number, event);
}

// Delivers everything that arrived while it was stopped, in order, and the timer somewhere in
// between.
void NodesWorld::go_on(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!agent.frozen || machines_[agent.machine].frozen) {
    return;
  }
  agent.frozen = false;
  note(name_of(number), '!', "the agent goes on");
  std::deque<NodeEvent> events = std::move(agent.deferred);
  agent.deferred.clear();
  const auto place = random_.between(0, static_cast<std::int64_t>(events.size()));
  events.insert(events.begin() + place, NodeTick{});
  for (NodeEvent& event : events) {
    if (std::holds_alternative<LinkOpened>(event)) {
      know_listener(number);
    }
    to_agent(number, std::move(event));
  }
}

void NodesWorld::thaw_machine(std::uint32_t number) {
  MachineState& machine = machines_[number];
  if (!machine.frozen) {
    return;
  }
  machine.frozen = false;
  network_.set_frozen(number, false);
  note(fmt::format("n{}", number), '!', "the machine goes on");
  for (Happening& what : machine.held) {
    queue_.after(between(Duration{}, milliseconds(2)), std::move(what));
  }
  machine.held.clear();
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    Agent& agent = agents_[i];
    if (agent.machine == number && agent.workers.alive && !agent.process &&
        agent.guard == Guard::stopped) {
      excuse(i);  // only that guard can kill its workers
    } else if (agent.machine == number && agent.workers.alive) {
      queue_.after(kThawGrace, Happening{Kind::thaw_over, 0, i, 0, nullptr, nullptr});
    }
    if (agent.machine == number && lives(agent) && !agent.frozen) {
      agent.frozen = true;
      queue_.after(between(Duration{}, milliseconds(2)),
                   Happening{Kind::thaw_agent, 0, i, 0, nullptr, nullptr});
    }
  }
}

void NodesWorld::count(std::uint32_t number, bool running) {
  Agent& agent = agents_[number];
  const bool excused = machines_[agent.machine].frozen || queue_.now() < agent.excused_until;
  if (agent.workers.counted == running || (running && excused)) {
    return;
  }
  agent.workers.counted = running;
  if (running) {
    checkers_.runs(agent.workers.round->id);
  } else {
    checkers_.runs_no_more(agent.workers.round->id);
  }
}

void NodesWorld::arm(std::uint32_t number) {
  Agent& agent = agents_[number];
  const auto deadline = agent.core->next_deadline();
  if (!deadline) {
    return;
  }
  const VirtualTime when = std::max(machines_[agent.machine].clock.reach(*deadline), queue_.now());
  if (agent.armed && *agent.armed <= when) {
    return;
  }
  agent.armed = when;
  // A timer fires late, never early.
  const Duration late = options_.calm_network ? Duration{} : between(Duration{}, microseconds(300));
  queue_.at(when + late,
            Happening{Kind::tick,
                      0,
                      number,
                      static_cast<std::uint64_t>(when.time_since_epoch().count()),
                      nullptr,
                      nullptr});
}

void NodesWorld::on_tick(Happening& what) {
  Agent& agent = agents_[what.subject];
  const VirtualTime when = VirtualTime{} + Duration(static_cast<std::int64_t>(what.detail));
  if (!lives(agent) || agent.armed != when) {
    return;
  }
  agent.armed.reset();
  const auto deadline = agent.core->next_deadline();
  if (deadline && machines_[agent.machine].clock.local(queue_.now()) >= *deadline) {
    to_agent(what.subject, NodeTick{});
  }
  if (!agent.frozen && lives(agent)) {
    arm(what.subject);
  }
}

}  // namespace muster::sim
