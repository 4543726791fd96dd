// SPDX-License-Identifier: Apache-2.0
// StragglerWatch in a multi-node job: sends the wait times of the local ranks to the leader, and
// judges the ranks of all nodes if this node is the leader.
#include "agent/rounds/shared_rounds.hpp"
#include "agent/watch/straggler_watch.hpp"
#include "base/clock.hpp"
#include "base/printable.hpp"

#include <cstddef>
#include <utility>
#include <variant>

namespace muster {
namespace {

// Adds only ranks with complete data: a rank with missing sums would seem to wait less.
std::vector<WaitSum> sums_of(const std::vector<straggler::RankWaits>& seen) {
  std::vector<WaitSum> out;
  for (const straggler::RankWaits& rank : seen) {
    if (out.size() + rank.groups.size() > kMaxWaitSums) {
      break;
    }
    for (const straggler::GroupWaits& group : rank.groups) {
      out.push_back({rank.rank,
                     rank.step.has_value(),
                     rank.step.value_or(0),
                     printable(group.group, kMaxNameBytes),
                     group.operations,
                     group.waits,
                     group.waited});
    }
  }
  return out;
}

std::vector<straggler::RankWaits> waits_of(const Waited& said) {
  std::vector<straggler::RankWaits> out;
  for (const WaitSum& sum : said.sums) {
    if (out.empty() || out.back().rank != sum.rank) {
      const auto step = sum.tells_step ? std::optional(sum.step) : std::nullopt;
      out.push_back({.rank = sum.rank, .at = said.at, .step = step});
    }
    out.back().groups.push_back({sum.group, sum.operations, sum.waits, sum.waited});
  }
  return out;
}

}  // namespace

void StragglerWatch::tell_others(const std::vector<straggler::RankWaits>& seen) {
  WaitedHere told;
  told.message.at = steady_now() - begun_;
  told.message.sums = sums_of(seen);
  if (!told.message.sums.empty()) {
    parts_.others->tell(std::move(told));
  }
}

// If this node has no label for these ranks, the node's own name is used.
std::string StragglerWatch::label_of(const HearWaits& heard) const {
  const auto label = labels_.find(heard.ranks.first);
  return printable(label == labels_.end() ? heard.node : label->second);
}

void StragglerWatch::hear(const HearWaits& heard) {
  if (heard.said.round == over_) {
    return;
  }
  if (heard.said.round != heard_of_) {
    heard_of_ = heard.said.round;
    job_waits_.begin();
    job_core_.begin();
  }
  job_waits_.take(steady_now(),
                  {label_of(heard), heard.ranks.first, heard.ranks.count, waits_of(heard.said)});
  judge_job();
}

void StragglerWatch::judge_job() {
  const auto ranks = job_waits_.next(steady_now());
  if (!ranks) {
    return;
  }
  std::vector<straggler::StragglerEffect> effects;
  job_core_.looked(steady_now(), *ranks, effects);
  for (straggler::StragglerEffect& effect : effects) {
    if (auto* named = std::get_if<straggler::Named>(&effect)) {
      named->slow.places = job_waits_.places_of(named->slow.ranks);
    } else if (auto* over = std::get_if<straggler::Over>(&effect)) {
      over->places = job_waits_.places_of(over->ranks);
    }
    std::visit([this](auto& told) { parts_.events.tell(std::move(told)); }, effect);
  }
}

}  // namespace muster
