// SPDX-License-Identifier: Apache-2.0
// RoundCore while no round runs: checks whether enough nodes are ready, proposes, and starts.
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/leader/ranking.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kAwaitedNamesMax = 8;

}  // namespace

void RoundCore::enter(TimePoint now, Phase phase) {
  phase_ = phase;
  phase_since_ = now;
}

// Called after every event that may change the outcome.
void RoundCore::evaluate(TimePoint now, NodeEffects& out) {
  switch (phase_) {
    case Phase::idle:
    case Phase::proposing:
      return;
    case Phase::gathering:
      if (enough_ready(now)) {
        auto members = choose(now);
        if (leaves_out_granted(now, members)) {
          MUSTER_MARK("a round waits for one that it leaves out");
        } else if (fills_all_ranks(members)) {
          propose(now, std::move(members), out);
          return;
        }
      }
      if (const auto by = short_by(); by && now >= *by) {
        close_short(now, out);
        return;
      }
      roll_call(now, out);
      return;
    case Phase::running:
      welcome_newcomers(now, out);
      return;
    case Phase::stopping:
      judge(now, out);
      return;
    case Phase::closed:
      if ((links_.size() <= 1 && dismissed_.empty() && !is_anyone_coming_back()) ||
          now >= phase_since_ + kCloseTimeout) {
        end_closed(now, out);
      }
      return;
  }
}

void RoundCore::note_ready(TimePoint now, Node& node, const Ready& ready, NodeEffects& out) {
  if (node.state == State::leaving) {
    return;
  }
  const bool ran = node.state == State::running && is_in_base(node.info.id);
  set_state(node, State::ready);
  if (phase_ == Phase::running && ran) {
    MUSTER_MARK("a member stopped its workers by itself");
    regroup(now,
            {fmt::format(
                 "node '{}' {}",
                 node.info.name,
                 ready.lost_touch ? "lost contact and killed its workers" : "stopped its workers"),
             ranks_of(*base_, node.info.id)},
            true,
            out);
  } else if (phase_ == Phase::stopping && ready.lost_touch) {
    membership_changed_ = true;
  }
}

// -- enough nodes? ----------------------------------------------------------------------------

// Counts the members of the last rounds whose workers may still run. No round may be formed without
// these members.
void RoundCore::count_expected(TimePoint now) {
  for (auto& [id, loss] : losses_) {
    loss.given_up = out_of_lease(now, id);
  }
  expected_ = count_awaited();
}

std::size_t RoundCore::count_awaited() const {
  const auto is_awaited = [&](NodeId id) {
    const auto loss = losses_.find(id);
    return loss == losses_.end() || !loss->second.given_up;
  };
  const auto in_base = std::ranges::count_if(base_->members, is_awaited, &NodeInfo::id);
  std::set<NodeId> others;
  for (const RoundPtr& round : accepted_) {
    for (const NodeInfo& member : round->members) {
      if (!is_in_base(member.id) && is_awaited(member.id)) {
        others.insert(member.id);
      }
    }
  }
  return static_cast<std::size_t>(in_base) + others.size();
}

bool RoundCore::is_eligible(const Node& node) {
  return node.attached && node.live && node.knows_past && node.state == State::ready;
}

bool RoundCore::enough_ready(TimePoint now) {
  const auto min = static_cast<std::size_t>(settings_.terms.nodes_min);
  if (eligible_ < std::max(min, expected_)) {
    enough_since_.reset();
    return false;
  }
  if (!unchecked_endpoints_.empty()) {
    return false;
  }
  if (base_->id.number == 0 && accepted_.empty()) {
    return enough_founders(now, eligible_);
  }
  enough_since_.reset();  // only the first round has a last call, so drop a stale time
  return all_expected_ready(now) && quorum_is_ready();
}

// True if another leader claims that the job runs and we have not reached it. Any peer can claim
// this, so the wait is limited.
bool RoundCore::is_claimed(TimePoint now) const {
  return !claimants_.empty() && now < *claims_since_ + kClaimsHoldMost &&
         now < claimed_at_ + kClaimHolds;
}

// True if the first round of the job can be formed: the maximum number of nodes is present, or the
// minimum is present and the last call is over. A claim by another leader delays the first round,
// and so does a node that is a last resort, because better ones may still arrive.
bool RoundCore::enough_founders(TimePoint now, std::size_t eligible) {
  const auto most = static_cast<std::size_t>(settings_.terms.nodes_max);
  if (eligible >= most && eligible - count_last_resorts(now) >= most) {
    return !is_claimed(now);
  }
  if (!enough_since_) {
    MUSTER_MARK("last call");
    enough_since_ = now;
  }
  if (eligible >= most) {
    MUSTER_MARK("the first round waits for better nodes");
    return now >= *enough_since_ + std::min(settings_.last_call, kBetterNodesWait) &&
           !is_claimed(now);
  }
  return now >= *enough_since_ + settings_.last_call && !is_claimed(now);
}

bool RoundCore::all_expected_ready(TimePoint now) const {
  const auto is_settled = [&](const NodeInfo& member) {
    const auto node = nodes_.find(member.id);
    return (node != nodes_.end() && is_eligible(node->second)) || out_of_lease(now, member.id);
  };
  return std::ranges::all_of(base_->members, is_settled) &&
         std::ranges::all_of(accepted_, [&](const RoundPtr& round) {
           return std::ranges::all_of(round->members, is_settled);
         });
}

std::vector<Standing> RoundCore::standings_of(const Round& round, Counts counts) const {
  std::vector<Standing> members;
  for (const NodeInfo& member : round.members) {
    const auto node = nodes_.find(member.id);
    const auto loss = losses_.find(member.id);
    if (is_forgotten(member.id)) {
      continue;
    }
    if (node != nodes_.end() && counts(node->second)) {
      members.push_back(is_heir(member.id, round) ? Standing::heir : Standing::here);
    } else {
      const bool gone = loss != losses_.end() && loss->second.gone && !loss->second.late &&
                        !MUSTER_MUTATE("proof ignored");
      members.push_back(gone ? Standing::gone : Standing::missing);
    }
  }
  return members;
}

bool RoundCore::quorum_is_ready() const {
  if (settings_.allow_split_brain || MUSTER_MUTATE("quorum ignored")) {
    return true;
  }
  const auto is_ready = [&](const RoundPtr& round) {
    return is_quorum(standings_of(*round, is_eligible));
  };
  return is_ready(base_) && std::ranges::all_of(accepted_, is_ready);
}

// Chooses members of the last round first, then other nodes in order of arrival, and nodes with
// many failures last.
std::vector<NodeInfo> RoundCore::choose(TimePoint now) const {
  std::vector<const Node*> ready;
  for (const auto& [id, node] : nodes_) {
    if (is_eligible(node)) {
      ready.push_back(&node);
    }
  }
  std::ranges::sort(ready, {}, [&](const Node* node) {
    return std::tuple(!is_in_base(node->info.id), is_last_resort(now, *node), node->order);
  });
  const auto most = static_cast<std::size_t>(settings_.terms.nodes_max);
  ready.resize(std::min(ready.size(), most));
  std::vector<NodeInfo> members;
  for (const Node* node : ready) {
    members.push_back(node->info);
  }
  return rank_nodes(std::move(members), settings_.rank_order, base_->members);
}

// True if `chosen` omits a node whose lease is valid. Such a node relies on no round being formed
// without it. This can happen if members of several rounds have joined and exceed the maximum
// number of nodes.
bool RoundCore::leaves_out_granted(TimePoint now, const std::vector<NodeInfo>& chosen) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    const Node& node = entry.second;
    const bool granted = node.granted && now < *node.granted + settings_.lease;
    return granted && is_eligible(node) && !is_in_base(entry.first) &&
           std::ranges::find(chosen, entry.first, &NodeInfo::id) == chosen.end();
  });
}

// A static job needs all nodes, one per rank.
bool RoundCore::fills_all_ranks(const std::vector<NodeInfo>& nodes) const {
  if (settings_.terms.backend != "static") {
    return true;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].node_rank != static_cast<std::int32_t>(i)) {
      return false;
    }
  }
  return nodes.size() == static_cast<std::size_t>(settings_.terms.nodes_max);
}

// Members that succeeded were dismissed and do not return. If too few nodes remain, only newcomers
// could make a round possible. The job ends when the wait for newcomers expires.
std::optional<TimePoint> RoundCore::short_by() const {
  if (phase_ != Phase::gathering || finished_.empty()) {
    return std::nullopt;
  }
  const auto min = static_cast<std::size_t>(settings_.terms.nodes_min);
  const bool is_short =
      std::max(eligible_, expected_) < min || (eligible_ >= expected_ && !quorum_is_ready());
  return is_short ? std::optional(phase_since_ + settings_.last_call) : std::nullopt;
}

// The result names a rank only if a worker failed.
void RoundCore::close_short(TimePoint now, NodeEffects& out) {
  MUSTER_MARK("too few are left beside those that have succeeded");
  const auto awaited = awaited_names(now);
  std::string why = fmt::format(
      "{}, and too few nodes remain for another round: {} of {} have succeeded and left{}{}",
      regroup_.reason,
      finished_.size(),
      base_->members.size(),
      awaited.empty() ? "" : ", missing: ",
      fmt::join(awaited, ", "));
  if (!membership_changed_ && !failures_.empty()) {
    verdict_ = std::move(why);
    close_failed(now, out);
    return;
  }
  Close ending;
  ending.exit_code = 1;
  ending.reason = std::move(why);
  close(now, std::move(ending), out);
}

// -- proposing --------------------------------------------------------------------------------

void RoundCore::propose(TimePoint now, std::vector<NodeInfo> members, NodeEffects& out) {
  enter(now, Phase::proposing);
  enough_since_.reset();
  std::ranges::for_each(members, [&](const auto& one) { count_mends(nodes_.at(one.id).mends); });
  auto round = std::make_shared<Round>();
  round->id = RoundId{++number_, self_.id};
  round->job = base_->job != 0 ? base_->job : self_.id;
  // If no node remembers a round, all launchers are new and have not used any restarts.
  restart_count_ = confirmed_ ? restart_count_ : 0;
  round->restart_count = restart_count_;
  round->members = std::move(members);
  proposal_ = std::move(round);
  accepts_ = 0;
  store_addr_.clear();
  store_port_ = 0;
  offer_ = {};
  const auto message = std::make_shared<const RoundMessage>(Propose{proposal_, base_});
  for (const NodeInfo& member : proposal_->members) {
    Node& node = nodes_.at(member.id);
    node.accepted = false;
    out.emplace_back(SendMessage{node.link, message});
  }
}

void RoundCore::accept(TimePoint now, Node& node, const Accept& accepting, NodeEffects& out) {
  if (phase_ != Phase::proposing || accepting.round != proposal_->id || node.accepted) {
    return;
  }
  node.accepted = true;
  node.evidence = std::max(node.evidence.value_or(TimePoint::min()), phase_since_);
  if (node.info.id == proposal_->members.front().id) {
    store_addr_ = accepting.store_addr;
    store_port_ = accepting.store_port;
    offer_ = accepting.offer;
  }
  if (++accepts_ < proposal_->members.size() &&
      (!MUSTER_MUTATE("start without all") || store_port_ == 0)) {
    return;
  }
  if (may_start(now)) {
    start(now, out);
  } else {
    MUSTER_MARK("all have accepted, but too long ago");
    abandon(now, out);
  }
}

// Starting a round grants leases, so it needs a current quorum. A node that accepted may have
// abandoned us one lease after our last message, and may be in another round by now. This can
// happen if the store opens late or if this coordinator was stopped for a while.
bool RoundCore::may_start(TimePoint now) const {
  const auto heard = quorum_time(evidence_of(now, *proposal_));
  return settings_.allow_split_brain || MUSTER_MUTATE("quorum ignored") ||
         (heard && (*heard == TimePoint::max() || now < *heard + quorum_after(settings_.lease)));
}

// Some nodes may have accepted the proposal, but no node was or will be asked to start it. If it
// was the job's first proposal, those nodes may form a round without us. From now on, each round
// therefore needs a quorum of the proposal's members, as if it had started.
void RoundCore::abandon(TimePoint now, NodeEffects& out) {
  MUSTER_MARK("a proposal is abandoned");
  enter(now, Phase::gathering);
  if (base_->id.number == 0 && !MUSTER_MUTATE("first proposal forgotten")) {
    MUSTER_MARK("the first proposal of the job is abandoned");
    set_base(proposal_);
    count_expected(now);
  }
  replace_superseded(now, out);
  for (const NodeInfo& member : proposal_->members) {
    if (const auto node = nodes_.find(member.id); node != nodes_.end()) {
      node->second.accepted = false;
    }
  }
  roll_call_due_ = now + kRollCallInterval;
}

// A node that has accepted our proposal starts no earlier round. Suppose that a quorum of an
// earlier round has accepted our proposal. Then the other members of that round cannot continue
// without a node that knows our proposal, which means that they also need a quorum of the proposal.
// So the proposal replaces that round. Otherwise we would wait for the members of a round that no
// other leader can learn about any more.
void RoundCore::replace_superseded(TimePoint now, NodeEffects& out) {
  const auto has_accepted = [](const Node& node) { return node.accepted; };
  const auto replaced = std::erase_if(accepted_, [&](const RoundPtr& round) {
    return is_quorum(standings_of(*round, has_accepted));
  });
  if (replaced == 0) {
    return;
  }
  MUSTER_MARK("a proposal replaces an earlier one");
  accepted_.push_back(proposal_);
  std::erase_if(losses_, [&](const auto& entry) {
    if (is_member(entry.first)) {
      return false;
    }
    asker_.forget(entry.first, out);
    return true;
  });
  quorum_until_.reset();
  quorum_checked_ = TimePoint::min();
  count_expected(now);
}

// The job already exists. Our first proposal then counts as a round that other nodes may have
// accepted, not as the last round.
void RoundCore::abandon_for_other(TimePoint now, NodeEffects& out) {
  const RoundPtr before = base_;
  abandon(now, out);
  if (base_ != before) {
    accepted_.push_back(base_);
    set_base(before);
  }
}

void RoundCore::drop_slow_newcomers(TimePoint now, NodeEffects& out) {
  if (phase_ != Phase::proposing || now < phase_since_ + kAcceptTimeout) {
    return;
  }
  bool dropped = false;
  for (const NodeInfo& member : proposal_->members) {
    Node& node = nodes_.at(member.id);
    if (!node.accepted && !is_in_base(member.id)) {
      MUSTER_MARK("a newcomer does not accept");
      node.live = false;
      recount(node);
      dropped = true;
    }
  }
  if (dropped) {
    abandon(now, out);
  }
}

void RoundCore::start(TimePoint now, NodeEffects& out) {
  enter(now, Phase::running);
  set_base(proposal_);
  confirmed_ = true;
  accepted_.clear();
  losses_.clear();
  asker_.forget_all(out);
  for (std::size_t i = 0; !founder_ && i < settings_.endpoints.size(); ++i) {
    asker_.want_endpoint(now, i, settings_.endpoints[i]);
  }
  finished_.clear();
  membership_changed_ = false;
  failures_.clear();
  failed_ranks_.clear();
  details_.clear();
  begin_mends();
  verdict_by_.reset();
  newcomer_since_.reset();
  roll_call_.reset();
  for (auto& [id, node] : nodes_) {
    if (is_in_base(id)) {
      set_state(node, State::running);
      send_start(node.link, out);
    } else if (node.attached) {
      send(node.link, Rounds{base_, std::make_shared<const Round>(), base_}, out);
    }
  }
  std::erase_if(nodes_, [&](const auto& entry) {
    return !entry.second.attached && !is_in_base(entry.first);
  });
  count_expected(now);
}

void RoundCore::send_start(LinkId link, NodeEffects& out) const {
  send(link, Start{base_->id, store_addr_, store_port_, policy_.restarts(), offer_}, out);
}

// -- roll call --------------------------------------------------------------------------------

void RoundCore::roll_call(TimePoint now, NodeEffects& out) {
  if (now < roll_call_due_) {
    return;
  }
  roll_call_due_ = now + kRollCallInterval;
  const RollCall call = make_roll_call(now);
  if (roll_call_ == call) {
    return;
  }
  roll_call_ = call;
  const auto message = std::make_shared<const RoundMessage>(call);
  for (const auto& [link, id] : links_) {
    out.emplace_back(SendMessage{link, message});
  }
}

RollCall RoundCore::make_roll_call(TimePoint now) const {
  RollCall call;
  const bool first = base_->id.number == 0 && accepted_.empty();
  call.needed = first ? settings_.terms.nodes_max
                      : std::max(settings_.terms.nodes_min, static_cast<std::int32_t>(expected_));
  if (!first && !quorum_is_ready()) {
    const auto majority = static_cast<std::int32_t>(base_->members.size() / 2 + 1);
    call.needed = std::max(call.needed, majority);
  }
  for (const auto& [id, node] : nodes_) {
    if (is_eligible(node)) {
      ++call.present;
      if (call.names.size() < kRollCallNamesMax) {
        call.names.push_back(node.info.name);
      }
    }
  }
  call.awaited = awaited_names(now);
  for (const auto& [name, text] : refused_) {
    if (call.refused.size() < kRollCallNamesMax) {
      call.refused.push_back(fmt::format("{}: {}", name, text));
    }
  }
  return call;
}

std::vector<std::string> RoundCore::awaited_names(TimePoint now) const {
  std::vector<std::string> awaited;
  const bool is_enough = quorum_is_ready();
  for (const NodeInfo& member : base_->members) {
    const auto node = nodes_.find(member.id);
    const bool here = node != nodes_.end() && node->second.attached;
    if ((here && is_eligible(node->second)) || awaited.size() >= kAwaitedNamesMax) {
      continue;
    }
    if (here) {
      awaited.push_back(member.name + " (not ready to restart yet)");
    } else if (const auto loss = losses_.find(member.id);
               loss == losses_.end() || loss->second.forgotten) {
      continue;
    } else if (loss->second.gone && loss->second.late && !is_enough) {
      awaited.push_back(member.name +
                        " (died while disconnected, and may have continued without us until "
                        "then; if it did not, run musterctl forget " +
                        member.name + ")");
    } else if (!loss->second.gone) {
      awaited.push_back(member.name + (out_of_lease(now, member.id)
                                           ? " (silent; may still be running without us)"
                                           : " (silent)"));
    }
  }
  return awaited;
}

}  // namespace muster
