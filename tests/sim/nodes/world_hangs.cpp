// SPDX-License-Identifier: Apache-2.0
// Inquiries (--hangs): in each round some nodes report, once or more often, that their workers make
// no progress. The leader asks all nodes. Their answers and delays are made up here. Each node
// receives each verdict once. It is the same for all nodes, and for the round that the node was
// told to run.
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kStallsPercent = 40;
constexpr int kSlowPercent = 5;  // answers that may arrive too late

// In the calm period every node answers at once.
constexpr Duration kCalmVerdictMax = seconds(15);

std::string findings_of(const Agent& agent, std::uint64_t inquiry) {
  return fmt::format("{} saw {}", agent.info.name, inquiry);
}

}  // namespace

void NodesWorld::expect_stalls(std::uint32_t number) {
  if (!options_.hangs || calm_ || !random_.chance(kStallsPercent)) {
    return;
  }
  const std::uint64_t generation = agents_[number].workers.generation;
  for (std::int64_t left = random_.between(1, 3); left > 0; --left) {
    queue_.after(between(Duration{}, options_.lease * 2),
                 Happening{Kind::stalls, 0, number, generation, nullptr, nullptr});
  }
}

void NodesWorld::handle_report(const Happening& what, bool current) {
  const std::uint32_t number = what.subject;
  if (what.kind == Kind::looked && std::holds_alternative<Judged>(*what.message)) {
    to_agent(number, JudgedHere{std::get<Judged>(*what.message)});
  } else if (what.kind == Kind::looked) {
    tell_looked(number, std::get<Look>(*what.message));
  } else if (what.kind == Kind::stalls && current && agents_[number].workers.alive) {
    to_agent(number, InquireHere{});
  } else if (what.kind == Kind::waits_due && current) {
    tell_waits(number);
  } else if (what.kind == Kind::entry_due && current) {
    on_entry(number);
  }
}

void NodesWorld::look(std::uint32_t number, const Look& question) {
  const Duration takes = calm_                          ? milliseconds(300)
                         : random_.chance(kSlowPercent) ? between(Duration{}, kAnswerMax * 2)
                                                        : between(Duration{}, seconds(1));
  queue_.after(
      takes,
      Happening{
          Kind::looked, 0, number, 0, std::make_shared<const RoundMessage>(question), nullptr});
}

void NodesWorld::tell_looked(std::uint32_t number, const Look& question) {
  const std::string findings = question.topic == Topic::preemption
                                   ? stop_at_step(number)
                                   : findings_of(agents_[number], question.inquiry);
  to_agent(number, LookedHere{{question.round, question.inquiry, findings, question.topic}});
}

// Each member appears once, with its own answer to this question or with none.
void NodesWorld::judge_hang(std::uint32_t number, const JudgeNow& all) {
  if (all.topic == Topic::preemption) {
    judge_preemption(number, all);
    return;
  }
  const RoundPtr round = checkers_.round(all.round);
  if (!round || round->members.size() != all.nodes.size()) {
    complain("a verdict covers nodes other than the members of the round");
    return;
  }
  std::string verdict = fmt::format("{} {} r{}:", name_of(number), all.inquiry, all.round.number);
  for (std::size_t i = 0; i < all.nodes.size(); ++i) {
    const NodeAnswer& answer = all.nodes[i];
    const Agent& member = agent_of(round->members[i].id);
    const bool answered = answer.presence == Presence::answered;
    if (answered ? answer.findings != findings_of(member, all.inquiry) : !answer.findings.empty()) {
      complain(fmt::format("{} did not give the answer attributed to it", member.label));
    }
    verdict += fmt::format(" {}", static_cast<int>(answer.presence));
  }
  const Judged said{all.round, all.inquiry, std::move(verdict)};
  queue_.after(
      Duration{},
      Happening{Kind::looked, 0, number, 0, std::make_shared<const RoundMessage>(said), nullptr});
}

void NodesWorld::hear_verdict(std::uint32_t number, const Judged& said) {
  Agent& agent = agents_[number];
  if (said.round != agent.told) {
    complain(fmt::format("{} received a verdict for a round that it does not run", agent.label));
  }
  if (said.topic == Topic::preemption) {
    hear_save_step(number, said);
    return;
  }
  if (!agent.verdicts.insert(said.verdict).second) {
    complain(fmt::format("{} received a verdict twice: {}", agent.label, said.verdict));
  }
  const auto judge = said.verdict.substr(0, said.verdict.find(" r"));
  const auto [known, is_new] = verdicts_.emplace(judge, said.verdict);
  if (!is_new && known->second != said.verdict) {
    complain("two verdicts of one inquiry: " + known->second + " and " + said.verdict);
  }
}

// In the calm period, the limits of the first and the last member expire together. All members
// receive one verdict, for which all of them were asked.
void NodesWorld::check_hang(const Round& round) {
  run_until(now() + kCalmVerdictMax);  // the verdicts of earlier inquiries arrive
  std::vector<Agent*> members;
  for (Agent& agent : agents_) {
    if (lives(agent) && agent.workers.alive && agent.workers.round->id == round.id) {
      agent.verdicts.clear();
      members.push_back(&agent);
    }
  }
  if (members.size() != round.members.size()) {
    return;  // some have finished
  }
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    if (&agents_[i] == members.front() || &agents_[i] == members.back()) {
      to_agent(i, InquireHere{});
    }
  }
  run_until(now() + kCalmVerdictMax);
  for (const Agent* const agent : members) {
    if (agent->verdicts.size() != 1 || agent->verdicts != members.front()->verdicts) {
      complain(fmt::format("{} has received {} verdicts", agent->label, agent->verdicts.size()));
      return;
    }
  }
}

}  // namespace muster::sim
