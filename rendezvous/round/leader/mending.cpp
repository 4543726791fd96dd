// SPDX-License-Identifier: Apache-2.0
// RoundCore while failed ranks are replaced and the round's other workers continue to run
// (--restart=rank). The round keeps its members, store and ranks; only its epoch changes. Epochs
// and round numbers share one counter, so that both only grow.
#include "base/mark.hpp"
#include "base/plural.hpp"
#include "rendezvous/round/leader/ranking.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

// No honest node gets this far, and the counter must not overflow.
constexpr std::uint64_t kEpochMost = std::uint64_t{1} << 62U;

}  // namespace

void RoundCore::begin_mends() {
  mends_ = {};
  mend_ = Mend{.round = base_->id, .mends = {base_->id.number, policy_.restarts()}};
}

// A node may know mends that we do not know, because another node led then. Those of a node outside
// of the round count when a round includes it.
void RoundCore::learn_mends(TimePoint now, Node& node, const Hello& hello) {
  node.mends = is_of_other_job(hello.inherits) ? Mends{} : hello.mends;
  if (!is_outsider(now, node.info.id)) {
    count_mends(node.mends);
  }
}

void RoundCore::count_mends(const Mends& theirs) {
  number_ = std::max(number_, std::min(theirs.epoch, kEpochMost));
  restarts_known_ = std::max(restarts_known_, theirs.restarts);
  if (restarts_known_ > policy_.restarts()) {
    policy_ = RestartPolicy(limits_of(settings_), restarts_known_);
  }
}

// The node may have missed a mend while it was disconnected.
void RoundCore::send_mend(const Node& node, const Mends& known, NodeEffects& out) const {
  if (known.epoch < mend_.mends.epoch) {
    MUSTER_MARK("a node has missed a mend");
    send(node.link, mend_, out);
  }
}

// Empty if the ranks can be replaced. They receive the job's state from another rank.
std::string RoundCore::mend_obstacle(const Node& node, const Lacking& lacking) const {
  const RankSpan own = ranks_of(*base_, node.info.id);
  const auto is_own = [&](int rank) { return rank >= own.first && rank - own.first < own.count; };
  if (lacking.ranks.empty() || !std::ranges::all_of(lacking.ranks, is_own)) {
    return "the request names ranks of another node";
  }
  if (!finished_.empty()) {
    return fmt::format("node '{}' has finished", name_of(*finished_.begin()));
  }
  for (const NodeInfo& member : base_->members) {
    if (!mends_.entered.contains(member.id)) {
      return fmt::format("not all ranks on '{}' have entered muster.elastic.run", member.name);
    }
  }
  const auto others =
      std::ranges::count_if(mends_.holders, [&](NodeId holder) { return holder != node.info.id; });
  return others == 0 && !lacking.holds_state ? "no remaining rank has the job's state" : "";
}

// Why mends do not help; empty if they may.
std::string RoundCore::note_repeat(const Lacking& lacking) {
  if (lacking.tells_step) {
    mends_.step = std::max(mends_.step.value_or(0), lacking.step);
  }
  return mends_.repeats.note(lacking.cause.rank, lacking.out_of_memory, mends_.step);
}

void RoundCore::note_lacking(TimePoint now, Node& node, const Lacking& lacking, NodeEffects& out) {
  // Otherwise the round ends, and the node's workers with it.
  if (phase_ != Phase::running || lacking.round != base_->id || node.state != State::running) {
    return;
  }
  if (!lacking.obstacle.empty()) {
    MUSTER_MARK("a node cannot take part in a mend");
    mends_.failed = true;
    regroup(now, {fmt::format("node '{}': {}", node.info.name, lacking.obstacle)}, false, out);
    return;
  }
  if (lacking.number <= mends_.granted[node.info.id].number) {
    MUSTER_MARK("the order to mend was lost with its connection");
    Mend mend = mend_of(node, lacking, {});
    mend.mends = mend_.mends;
    send(node.link, std::move(mend), out);
    return;
  }
  const std::string obstacle = is_due(now, node.info.id, lacking.cause)
                                   ? "a spare takes the place of the node"
                                   : mend_obstacle(node, lacking);
  const std::string why = obstacle.empty() ? note_repeat(lacking) : obstacle;
  const RestartDecision decision =
      why.empty() ? policy_.decide(lacking.cause) : RestartDecision{false, why};
  if (decision.restart) {
    note_first_failure(now, {node.info.id, lacking.cause.rank, lacking.cause.node_cause}, out);
    grant_mend(node, lacking, decision.reason, out);
    return;
  }
  MUSTER_MARK("a mend of several nodes is refused");
  mends_.granted[node.info.id].ranks.clear();
  send(node.link, NoMend{base_->id, lacking.number, why}, out);
}

// The node gave up a mend before it heard that it was granted. The mend has counted this failure.
bool RoundCore::was_counted(NodeId node, std::int32_t rank) const {
  const auto granted = mends_.granted.find(node);
  return granted != mends_.granted.end() && mends_.unready.contains(node) &&
         std::ranges::find(granted->second.ranks, rank) != granted->second.ranks.end();
}

void RoundCore::grant_mend(Node& node,
                           const Lacking& lacking,
                           const std::string& reason,
                           NodeEffects& out) {
  MUSTER_MARK("ranks are replaced in a round of several nodes");
  const NodeId id = node.info.id;
  mend_ = mend_of(node, lacking, reason);
  mend_.mends = {++number_, policy_.restarts()};
  mends_.granted[id] = {lacking.number, lacking.ranks};
  if (!lacking.holds_state) {
    mends_.holders.erase(id);
  }
  for (const NodeInfo& member : base_->members) {
    mends_.unready.insert(member.id);
  }
  const auto message = std::make_shared<const RoundMessage>(mend_);
  for (const auto& [other_id, other] : nodes_) {
    if (other.attached && other.state == State::running) {
      out.emplace_back(SendMessage{other.link, message});
    }
  }
}

Mend RoundCore::mend_of(const Node& node, const Lacking& lacking, const std::string& reason) const {
  Mend mend{.round = base_->id,
            .asker = node.info.id,
            .number = lacking.number,
            .ranks = lacking.ranks,
            .cause = lacking.cause.rank};
  mend.reason = fmt::format("rank {} on '{}' {}; replacing {}{}{}",
                            lacking.cause.rank,
                            node.info.name,
                            lacking.cause.text,
                            name_ranks(lacking.ranks),
                            reason.empty() ? "" : ": ",
                            reason);
  return mend;
}

void RoundCore::note_mended(const Node& node, const Mended& mended) {
  if (phase_ != Phase::running || mended.round != base_->id || !is_in_base(node.info.id)) {
    return;
  }
  mends_.entered.insert(node.info.id);
  if (mended.epoch == mend_.mends.epoch) {
    mends_.holders.insert(node.info.id);
    mends_.unready.erase(node.info.id);
  }
}

}  // namespace muster
