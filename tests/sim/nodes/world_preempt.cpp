// SPDX-License-Identifier: Apache-2.0
// Preemptions (--preempts): in the calm period the first and the last member of the running round
// learn that a scheduler will stop the job. Sometimes a node dies then. All ranks receive one step
// at which they save, and no rank has passed it. The steps that the ranks report are made up here.
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kDiesPercent = 60;
constexpr std::int64_t kStepMax = 1000;
// Longer than the coordinator waits for a node that does not answer.
constexpr Duration kDecidedWithin = seconds(15);

std::uint64_t number_of(const std::string& text) {
  return text.empty() ? 0 : std::stoull(text);
}

}  // namespace

// From now on, the node's ranks wait for the decision.
std::string NodesWorld::stop_at_step(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!agent.step) {
    agent.step = static_cast<std::uint64_t>(random_.between(0, kStepMax));
  }
  return fmt::format("{}", *agent.step);
}

void NodesWorld::judge_preemption(std::uint32_t number, const JudgeNow& all) {
  std::uint64_t latest = 0;
  for (const NodeAnswer& answer : all.nodes) {
    latest = std::max(latest, number_of(answer.findings));
  }
  const Judged said{all.round, all.inquiry, fmt::format("{}", latest + 1), all.topic};
  queue_.after(
      Duration{},
      Happening{Kind::looked, 0, number, 0, std::make_shared<const RoundMessage>(said), nullptr});
}

void NodesWorld::hear_save_step(std::uint32_t number, const Judged& said) {
  Agent& agent = agents_[number];
  if (agent.save_step) {
    complain(fmt::format("{} was told twice at which step it saves", agent.label));
  }
  agent.save_step = number_of(said.verdict);
  if (agent.step && *agent.step >= *agent.save_step) {
    complain(fmt::format("{} has passed step {}", agent.label, *agent.save_step));
  }
}

void NodesWorld::check_preemption(const Round& round) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t i = 0; i < agents_.size(); ++i) {
    const Agent& agent = agents_[i];
    if (lives(agent) && agent.workers.alive && agent.workers.round->id == round.id) {
      members.push_back(i);
    }
  }
  if (members.size() != round.members.size()) {
    return;  // some have finished
  }
  const InquireHere notice{Topic::preemption, "30000 SIGTERM"};
  to_agent(members.front(), notice);
  to_agent(members.back(), notice);
  if (members.size() > 1 && random_.chance(kDiesPercent)) {
    run_until(now() + between(Duration{}, milliseconds(600)));
    kill_agent(members[static_cast<std::size_t>(
        random_.between(0, static_cast<std::int64_t>(members.size()) - 1))]);
  }
  run_until(now() + kDecidedWithin);
  check_save_steps(round, members);
}

// If a node died before the decision, the round may have ended without one.
void NodesWorld::check_save_steps(const Round& round, const std::vector<std::uint32_t>& members) {
  std::optional<std::uint64_t> told;
  for (const std::uint32_t number : members) {
    const Agent& agent = agents_[number];
    const bool runs = lives(agent) && agent.workers.alive && agent.workers.round->id == round.id;
    if (runs && !agent.save_step) {
      complain(fmt::format("{} was not told at which step it saves", agent.label));
    }
    if (agent.save_step && told && *told != *agent.save_step) {
      complain(fmt::format(
          "{} saves at step {}, another node at {}", agent.label, *agent.save_step, *told));
    }
    told = agent.save_step ? agent.save_step : told;
  }
}

}  // namespace muster::sim
