// SPDX-License-Identifier: Apache-2.0
// Wait times of workers (--waits), reported repeatedly by each node. A leader receives them only
// from members of the running round, each with its ranks in that round, and never twice. In the
// calm period, one node receives them from all.
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTellEach = seconds(1);

// Counted from the start of the calm period.
constexpr Duration kHeardWithin = seconds(5);

}  // namespace

void NodesWorld::expect_waits(std::uint32_t number) {
  if (options_.waits) {
    const std::uint64_t generation = agents_[number].workers.generation;
    queue_.after(kTellEach + between(Duration{}, milliseconds(50)),
                 Happening{Kind::waits_due, 0, number, generation, nullptr, nullptr});
  }
}

// The number represents the wait times.
void NodesWorld::tell_waits(std::uint32_t number) {
  const Agent& agent = agents_[number];
  if (!agent.workers.alive || !lives(agent)) {
    return;
  }
  WaitedHere told;
  told.message.at = queue_.now() - agent.workers.since;
  told.message.sums.push_back({.rank = agent.workers.group_rank,
                               .group = agent.info.name,
                               .operations = ++waits_told_,
                               .waits = agent.workers.round->id.number});
  to_agent(number, told);
  expect_waits(number);
}

void NodesWorld::hear_waits(std::uint32_t number, const HearWaits& heard) {
  const RoundPtr round = checkers_.round(heard.said.round);
  if (!round || heard.said.sums.size() != 1) {
    complain("wait times of a round that never ran");
    return;
  }
  const WaitSum& sum = heard.said.sums.front();
  const auto place = static_cast<std::size_t>(sum.rank);
  if (heard.ranks != RankSpan{sum.rank, 1} || place >= round->members.size() ||
      round->members[place].name != heard.node || sum.group != heard.node ||
      sum.waits != round->id.number) {
    complain(fmt::format("wait times from {} that are not its own", heard.node));
  }
  std::uint64_t& last = waits_heard_[number][{round->id, sum.rank}];
  if (sum.operations <= last) {
    complain(fmt::format("wait times from {} that are older than the previous ones", heard.node));
  }
  last = sum.operations;
}

// Several nodes may have received some earlier, before they knew of each other.
void NodesWorld::check_waits(const Round& round) {
  const auto runs = [&](const Agent& agent) {
    return lives(agent) && agent.workers.alive && agent.workers.round->id == round.id;
  };
  const auto members = std::ranges::count_if(agents_, runs);
  waits_heard_.clear();
  run_until(now() + kHeardWithin);
  if (std::ranges::count_if(agents_, runs) != members) {
    return;  // another round has begun, or some have finished
  }
  if (waits_heard_.size() != 1 ||
      std::cmp_not_equal(waits_heard_.begin()->second.size(), members)) {
    complain(fmt::format("{} nodes hear what workers wait, the first of {} of {} members",
                         waits_heard_.size(),
                         waits_heard_.empty() ? 0 : waits_heard_.begin()->second.size(),
                         members));
  }
}

}  // namespace muster::sim
