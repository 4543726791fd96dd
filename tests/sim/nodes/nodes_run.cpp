// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/nodes_run.hpp"

#include "sim/nodes/describe.hpp"
#include "sim/nodes/faults.hpp"
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muster::sim {
namespace {

using std::chrono::seconds;

class Verdict {
 public:
  Verdict(NodesWorld& world, const NodesOptions& options) : world_(world), options_(options) {}

  void check_converged();
  void end_job();

  [[nodiscard]] bool converged() const { return converged_; }

 private:
  [[nodiscard]] bool takes_part(const Agent& agent) const;
  [[nodiscard]] bool finds_others(const Agent& agent) const;
  [[nodiscard]] std::size_t living() const;
  [[nodiscard]] bool anybody(Ending how) const;
  [[nodiscard]] bool has_quorum(const Round& round) const;
  [[nodiscard]] bool has_founder() const;
  [[nodiscard]] bool is_waiting_for_records() const;
  [[nodiscard]] bool is_last_call() const;
  [[nodiscard]] bool must_run() const;
  void check_running(const Round& round);
  void check_closed();

  NodesWorld& world_;
  const NodesOptions& options_;
  bool converged_ = false;
};

// Fresh nodes cannot find the others if no endpoint is open.
bool Verdict::takes_part(const Agent& agent) const {
  return world_.lives(agent) && !agent.stranger &&
         (agent.told.number > 0 || world_.is_endpoint_open());
}

// Without an open endpoint, a node finds only the members of the rounds that it knows.
bool Verdict::finds_others(const Agent& agent) const {
  const RoundPtr known = world_.checkers().round(agent.told);
  return world_.is_endpoint_open() ||
         (known && std::ranges::any_of(known->members, [&](const NodeInfo& member) {
            return member.id != agent.info.id && world_.lives(world_.agent_of(member.id));
          }));
}

std::size_t Verdict::living() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      world_.agents(), [&](const Agent& agent) { return takes_part(agent); }));
}

bool Verdict::anybody(Ending how) const {
  return std::ranges::any_of(world_.agents(),
                             [&](const Agent& agent) { return agent.ending == how; });
}

// True if the live members are more than half of all, exactly half including the first, or all
// except members that died while no round can have formed without the others. A restarted agent
// with the record of a member counts, but at least one member must have survived, or all must be
// here.
bool Verdict::has_quorum(const Round& round) const {
  std::size_t here = 0;
  bool first = false;
  bool lasting = false;
  for (const NodeInfo& member : round.members) {
    const Agent& itself = world_.agent_of(member.id);
    const bool lives = world_.lives(itself);
    const bool has_heir = std::ranges::any_of(world_.agents(), [&](const Agent& agent) {
      return world_.lives(agent) && agent.formerly.contains(member.id);
    });
    // A leader writes restarted agents into the earlier rounds (RoundCore::inherited).
    lasting = lasting || (lives && round.id > itself.inherited);
    if (lives || has_heir) {
      ++here;
      first = first || member.id == round.members.front().id;
    }
  }
  const std::size_t all = round.members.size();
  const bool majority = here * 2 > all || (here * 2 == all && first);
  return here == all || (lasting && (majority || world_.died_in_sight(round)));
}

// A node that has followed a leader founds the job again only if it has proven that leader dead
// (LinkCore::founds_again). Otherwise it exits when its join timeout expires.
bool Verdict::has_founder() const {
  return std::ranges::any_of(world_.agents(), [&](const Agent& agent) {
    const bool may_host = agent.hosts || agent.machine == 0;
    return world_.lives(agent) && may_host && !agent.rejoins &&
           (!agent.met || agent.core->coordinator().leads());
  });
}

// A leader has learned of a round from a node that is dead now, like all other members of the
// round, or like so many members of a proposed round that the others are no quorum. They may return
// with their records, so the leader waits for them.
bool Verdict::is_waiting_for_records() const {
  return std::ranges::any_of(world_.agents(), [&](const Agent& agent) {
    const RoundCore& core = agent.core->coordinator();
    const RoundPtr& base = core.base();
    const bool waits_for_base =
        base->id.number > 0 && std::ranges::none_of(base->members, [&](const NodeInfo& member) {
          return world_.lives(world_.agent_of(member.id));
        });
    const bool waits_for_accepted = std::ranges::any_of(
        core.accepted(), [&](const RoundPtr& round) { return !has_quorum(*round); });
    return world_.lives(agent) && core.leads() && (waits_for_base || waits_for_accepted);
  });
}

// A leader without a quorum has given up. The last call of the others began only then.
bool Verdict::is_last_call() const {
  return std::ranges::any_of(world_.agents(), [&](const Agent& agent) {
    const bool knew_round =
        agent.told.number > 0 || agent.core->coordinator().base()->id.number > 0;
    return agent.ending == Ending::failed && knew_round &&
           world_.now() - agent.ended_at < options_.last_call + seconds(12);
  });
}

// True if the rule requires that a round runs now.
bool Verdict::must_run() const {
  if (is_waiting_for_records() || (world_.remembered().number == 0 && is_last_call())) {
    return false;
  }
  if (anybody(Ending::closed) || anybody(Ending::finished) ||
      living() < static_cast<std::size_t>(options_.min)) {
    return false;
  }
  const RoundId latest = world_.remembered();
  const auto quorum_of = [&](const RoundPtr& round) {
    return !round || round->id.number == 0 || has_quorum(*round);
  };
  return (latest.number > 0 || has_founder()) && quorum_of(world_.checkers().round(latest)) &&
         std::ranges::all_of(world_.agents(), [&](const Agent& agent) {
           return !world_.lives(agent) || !agent.accepted || agent.accepted->id <= latest ||
                  (quorum_of(agent.accepted) && quorum_of(agent.accepted_base));
         });
}

bool is_member(const Round& round, const Agent& agent) {
  return std::ranges::find(round.members, agent.info.id, &NodeInfo::id) != round.members.end();
}

void Verdict::check_running(const Round& round) {
  for (const Agent& agent : world_.agents()) {
    const bool runs = agent.workers.alive && agent.workers.round->id == round.id;
    if (is_member(round, agent) && world_.lives(agent) && !runs && !agent.workers.finished) {
      world_.complain(
          fmt::format("{} does not run although it is a member of the round", agent.label));
    }
  }
  const auto others = std::ranges::count_if(world_.agents(), [&](const Agent& agent) {
    return takes_part(agent) && !is_member(round, agent) && finds_others(agent);
  });
  const std::size_t most = std::min(round.members.size() + static_cast<std::size_t>(others),
                                    static_cast<std::size_t>(options_.max));
  const bool may_wait = !options_.join_delay || anybody(Ending::finished);
  if (round.members.size() < most && !may_wait) {
    world_.complain(
        fmt::format("a round of {} nodes runs, but {} nodes are alive, and {} could be members",
                    round.members.size(),
                    living(),
                    options_.max));
  }
}

// When a job ends, it ends on all of its nodes that can be notified. The others find no other node;
// the quorum rule (rendezvous/README.md) decides what they may do.
void Verdict::check_closed() {
  for (const Agent& agent : world_.agents()) {
    if (world_.lives(agent) && agent.told.number > 0 && !agent.out_of_touch) {
      world_.complain(fmt::format("{} is still alive after the end of the job", agent.label));
    }
  }
}

void Verdict::check_converged() {
  const auto& running = world_.checkers().running();
  if (world_.checkers().close()) {
    check_closed();
    return;
  }
  if (!running.empty()) {
    const RoundPtr round = world_.checkers().round(running.front().first);
    check_running(*round);
    if (options_.hangs && world_.checkers().problem().empty()) {
      world_.check_hang(*round);
    }
    if (options_.waits && world_.checkers().problem().empty()) {
      world_.check_waits(*round);
    }
    if (options_.mends && world_.checkers().problem().empty()) {
      world_.check_mends(*round);
    }
    if (options_.preempts && world_.checkers().problem().empty()) {
      world_.check_preemption(*round);
    }
    converged_ = true;
    return;
  }
  if (must_run()) {
    world_.complain(
        fmt::format("no round runs although {} nodes are alive and include a quorum of {}",
                    living(),
                    words_of(world_.remembered())));
  }
}

// All workers succeed, so the job must succeed on all nodes.
void Verdict::end_job() {
  if (world_.checkers().running().empty() || world_.checkers().close()) {
    return;
  }
  for (std::uint32_t i = 0; i < world_.agents().size(); ++i) {
    if (world_.agents()[i].workers.alive) {
      world_.finish_workers(i, options_.lease * (i % 7) / 20);
    }
  }
  std::vector<const Agent*> all;
  for (const Agent& agent : world_.agents()) {
    if (takes_part(agent)) {
      all.push_back(&agent);
    }
  }
  world_.run_until(world_.now() + options_.lease * 2 + seconds(5));
  for (const Agent* agent : all) {
    if (world_.lives(*agent) && !agent->out_of_touch) {
      world_.complain(fmt::format("{} is still alive after the job succeeded", agent->label));
    }
  }
  if (world_.checkers().close() && !world_.checkers().close()->succeeded) {
    world_.complain("all workers succeeded, but the job failed");
  }
}

}  // namespace

// One lease until frozen or cut nodes are out of lease everywhere, one for silent machines, one for
// a slow store; the last call; connecting and retrying; stubborn workers, twice.
Duration convergence_time(const NodesOptions& options) {
  return options.lease * 4 + options.last_call + options.grace * 2 + seconds(12) +
         options.join_delay.value_or(Duration{});
}

NodesReport run_nodes(const NodesOptions& options, std::uint64_t seed, Trace& trace) {
  NodesWorld world(options, seed, trace);
  Faults faults(world, options, seed);
  Verdict verdict(world, options);
  world.note("-", '!', options.describe());
  faults.start_all();
  faults.play();
  NodesReport report;
  report.closed = world.checkers().close().has_value();
  if (world.checkers().problem().empty()) {
    faults.put_right();
    world.run_until(world.now() + convergence_time(options));
  }
  if (world.checkers().problem().empty()) {
    verdict.check_converged();
  }
  if (world.checkers().problem().empty()) {
    verdict.end_job();
  }
  report.problem = world.checkers().problem();
  report.trace_hash = trace.hash;
  report.events = world.events();
  report.rounds = world.checkers().rounds();
  report.messages = world.network().sent();
  report.converged = verdict.converged();
  return report;
}

}  // namespace muster::sim
