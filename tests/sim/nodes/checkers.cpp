// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/checkers.hpp"

#include "sim/nodes/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace muster::sim {

void Checkers::complain(const std::string& problem) {
  if (problem_.empty()) {
    problem_ = problem;
  }
}

RoundPtr Checkers::round(RoundId id) const {
  const auto at = rounds_.find(id);
  return at == rounds_.end() ? nullptr : at->second.round;
}

void Checkers::ran(NodeId node, const RunRound& run, const Known& known, VirtualTime now) {
  const Round& round = *run.round;
  const auto at = rounds_.find(round.id);
  if (at == rounds_.end()) {
    check_new(round, known);
    rounds_[round.id] = Record{run.round, run.master_addr, run.master_port, run.offer, {}, {}};
    for (const NodeInfo& member : round.members) {
      if (gone_.contains(member.id)) {
        rounds_[round.id].first_loss = now;
      }
    }
  } else {
    const Record& earlier = at->second;
    if (earlier.round != run.round && *earlier.round != round) {
      complain("members of one round were told different rounds");
    }
    if (earlier.master_addr != run.master_addr || earlier.master_port != run.master_port ||
        earlier.offer != run.offer) {
      complain("members of one round were told different masters");
    }
  }
  const auto rank = static_cast<std::size_t>(run.group_rank);
  if (run.group_rank < 0 || rank >= round.members.size() || round.members[rank].id != node) {
    complain("a node was told a group rank that is not its own");
  }
  if (last_.contains(node) && last_[node].number >= round.id.number) {
    complain("round numbers do not increase on a node");
  }
  last_[node] = round.id;
}

void Checkers::mended(RoundId round, const RunMend& run) {
  const auto [known, is_new] = mends_.try_emplace({round, run.mends.epoch}, run.ranks);
  if (!is_new && run.number == 0 && known->second != run.ranks) {
    complain("two nodes were told different mends of one epoch");
  }
  if (run.mends.epoch <= round.number) {
    complain("the epoch of a mend is not after that of its round");
  }
}

void Checkers::check_new(const Round& round, const Known& known) {
  const RoundId remembered = known.remembered;
  if (round.id.number <= remembered.number) {
    complain(
        fmt::format("round {} was started after {}", words_of(round.id), words_of(remembered)));
  }
  const auto size = static_cast<std::int32_t>(round.members.size());
  if (size < options_.min || size > options_.max) {
    complain(fmt::format("a round of {} nodes", size));
  }
  std::set<NodeId> members;
  for (const NodeInfo& member : round.members) {
    if (!members.insert(member.id).second) {
      complain("a node appears twice in a round");
    }
  }
  if (round.restart_count < 0 || round.restart_count > options_.max_restarts) {
    complain("more restarts than the budget allows");
  }
  // If no node of the round has run before, its leader may still know the restarts from a node that
  // it met. If all launchers are new, none has used a restart.
  const bool all_new = std::ranges::none_of(
      round.members, [&](const NodeInfo& member) { return last_.contains(member.id); });
  const bool is_first = (remembered.number == 0 || all_new) && round.restart_count == 0;
  const auto before = rounds_.find(remembered.number > 0 ? remembered : known.recalled);
  if (!is_first && before != rounds_.end()) {
    check_budget(round, before->second);
  } else if (!is_first && round.restart_count != 0) {
    complain("a first round that is a restart");
  }
}

// A member lost before the first failure cannot have answered Regroup, so the round ended because
// of its membership.
void Checkers::check_budget(const Round& round, const Record& before) {
  const int used = round.restart_count - before.round->restart_count;
  // A coordinator that was cut off may have counted one for a round that others replaced. Later
  // coordinators learn its count from its nodes.
  const auto failed = std::ranges::count_if(
      rounds_, [](const auto& known) { return known.second.first_failure.has_value(); });
  if (used < 0 || (used > 1 && round.restart_count > failed)) {
    complain("the number of restarts jumps");
  }
  if (used == 1 && !before.first_failure && round.restart_count > failed) {
    complain("a restart was counted although no worker failed");
  }
  if (used == 1 && before.first_failure && before.first_loss &&
      *before.first_loss < *before.first_failure) {
    complain("a membership change was charged as a restart");
  }
  // A leader that a spare replaces takes the last count with it.
  const bool may_forget = options_.mends || before.first_loss.has_value();
  if (used == 0 && before.first_failure && options_.calm_network && !may_forget) {
    complain("a restart was not counted");
  }
}

void Checkers::runs(RoundId round) {
  const auto at = std::ranges::find(running_, round, &std::pair<RoundId, std::uint32_t>::first);
  if (at != running_.end()) {
    ++at->second;
    return;
  }
  running_.emplace_back(round, 1);
  if (running_.size() > 1) {
    complain(fmt::format("workers of two rounds run at the same time: {} and {}",
                         words_of(running_[0].first),
                         words_of(running_[1].first)));
  }
}

void Checkers::runs_no_more(RoundId round) {
  const auto at = std::ranges::find(running_, round, &std::pair<RoundId, std::uint32_t>::first);
  if (at == running_.end()) {
    complain("the simulator has lost count of the workers");
  } else if (--at->second == 0) {
    running_.erase(at);
  }
}

void Checkers::worker_failed(RoundId round, VirtualTime now) {
  auto& first = rounds_.at(round).first_failure;
  first = first ? *first : now;
}

void Checkers::node_gone(NodeId node, VirtualTime now) {
  gone_.emplace(node, now);
  const auto last = last_.find(node);
  if (last != last_.end()) {
    auto& first = rounds_.at(last->second).first_loss;
    first = first ? *first : now;
  }
}

void Checkers::closed(const Close& close) {
  if (!close_) {
    close_ = close;
    return;
  }
  if (close_->succeeded != close.succeeded || close_->exit_code != close.exit_code) {
    complain("the job ended differently on two nodes");
  } else if (close_->root_rank != close.root_rank || close_->root_node != close.root_node ||
             close_->root_text != close.root_text || close_->details != close.details) {
    complain("two nodes name different root causes");
  }
}

}  // namespace muster::sim
