// SPDX-License-Identifier: Apache-2.0
// RoundCore's queries to nodes that do not follow it, and the quorum on which its leases are based.
#include "base/mark.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// A limit is needed because any peer can invent node ids.
constexpr std::size_t kClaimantsMax = 256;

}  // namespace

// -- queries ----------------------------------------------------------------------------------

Hello RoundCore::question(TimePoint now) {
  Hello hello;
  hello.purpose = Purpose::ask;
  hello.terms = settings_.terms;
  hello.node = self_;
  hello.started = base_->id;
  hello.coordinates = true;
  hello.has_quorum = phase_ == Phase::running && has_quorum(now);
  hello.inherits = inheritance();
  return hello;
}

void RoundCore::question_opened(TimePoint now, LinkId link, NodeEffects& out) {
  asker_.opened(link, question(now), out);
}

void RoundCore::question_answered(TimePoint now,
                                  LinkId link,
                                  const RoundMessage& message,
                                  NodeEffects& out) {
  const auto result = asker_.received(now, link, message, out);
  if (result) {
    take_answer(now, *result, out);
  }
}

void RoundCore::question_ended(TimePoint now, LinkId link, LinkEnd how, NodeEffects& out) {
  const auto result = asker_.ended(now, link, how);
  if (result) {
    take_answer(now, *result, out);
  }
  ask_around(now, out);
}

void RoundCore::take_answer(TimePoint now, const AskResult& result, NodeEffects& out) {
  if (result.node == 0) {
    unchecked_endpoints_.erase(result.endpoint);
    // A founder queries each of the other endpoints once, in case a leader has taken over the job.
    if (founder_) {
      asker_.forget_endpoint(result.endpoint, out);
    }
  }
  if (result.what == AskResult::What::gone) {
    MUSTER_MARK("proof that a node is gone");
    claimants_.erase(result.node);
    bury(now, result.node, out);
  }
  if (result.claim) {
    const Claim& claim = *result.claim;
    if (claim.node.id == self_.id) {
      asker_.forget_endpoint(result.endpoint, out);
    } else if (is_worth_following(now, claim)) {
      stronger_ = claim.coordinator;
    } else {
      claimants_.erase(result.node);
      if (is_unknown_leader(claim)) {
        asker_.want_once(now, claim.coordinator);
      }
    }
    if (result.node != 0 && !is_member(result.node)) {
      asker_.forget(result.node, out);  // the node itself has answered
    }
  }
  evaluate(now, out);
}

// A follower's claim about its leader counts less than the leader's own claim, because the leader
// may be dead and the follower may not know it yet.
bool RoundCore::is_worth_following(TimePoint now, const Claim& claim) {
  const NodeInfo& leader = claim.coordinator;
  const bool is_hearsay = claim.node.id != leader.id;
  if (leader.id == 0 || leader.id == self_.id || (is_hearsay && !claim.has_quorum)) {
    return false;
  }
  return is_stronger(now, leader, claim.started, claim.has_quorum, claim.inherits);
}

// True for a leader that we know only from one of its followers. We must query it. Otherwise, two
// leaders without a quorum might never find each other, although each needs one of the other's
// followers.
bool RoundCore::is_unknown_leader(const Claim& claim) const {
  const NodeId leader = claim.coordinator.id;
  return leader != 0 && leader != self_.id && leader != claim.node.id && !nodes_.contains(leader) &&
         !is_member(leader);
}

void RoundCore::hear_claim(TimePoint now, const Hello& hello, NodeEffects& out) {
  if (!is_stronger(now, hello.node, hello.started, hello.has_quorum, hello.inherits)) {
    return;
  }
  MUSTER_MARK("a claim to lead is asked about at its address");
  claims_since_ = claims_since_.value_or(now);
  claimed_at_ = now;
  if (claimants_.size() < kClaimantsMax) {
    claimants_.insert(hello.node.id);
  }
  asker_.want_once(now, known_as(hello.node));
  ask_around(now, out);
}

// For a known node, returns the address that we already know. Otherwise a peer could use the node's
// id with another address and make us believe that the node is dead.
NodeInfo RoundCore::known_as(const NodeInfo& claimed) const {
  if (const auto node = nodes_.find(claimed.id); node != nodes_.end()) {
    return node->second.info;
  }
  std::vector<RoundPtr> rounds = accepted_;
  rounds.push_back(base_);
  for (const RoundPtr& round : rounds) {
    const auto member = std::ranges::find(round->members, claimed.id, &NodeInfo::id);
    if (member != round->members.end()) {
      return *member;
    }
  }
  return claimed;
}

void RoundCore::ask_around(TimePoint now, NodeEffects& out) {
  asker_.tick(now, out);
}

std::optional<NodeInfo> RoundCore::take_stronger() {
  return std::exchange(stronger_, std::nullopt);
}

bool RoundCore::is_stronger(TimePoint now,
                            const NodeInfo& other,
                            const RoundId& started,
                            bool quorum,
                            const Inheritance& theirs) {
  if (phase_ == Phase::closed || is_outsider(now, other.id)) {
    return false;
  }
  // The order of precedence: own memory before records, then the later round, a running quorum and
  // the lower rank (rendezvous/README.md, "Who leads after a loss").
  if (theirs.unconfirmed != is_recalled()) {
    return is_recalled();
  }
  if (started != base_->id) {
    return started > base_->id;
  }
  const bool ours = phase_ == Phase::running && has_quorum(now);
  if (quorum != ours) {
    return quorum;
  }
  const auto place = [&](NodeId id) {
    const auto found = places_.find(id);
    return found == places_.end() ? places_.size() : found->second;
  };
  // A restarted leader has the ranks of its predecessors.
  std::size_t first = place(other.id);
  for (const NodeId gone : theirs.ids) {
    first = std::min(first, place(gone));
  }
  return std::pair(first, other.id) < std::pair(place(self_.id), self_.id);
}

// -- quorum -----------------------------------------------------------------------------------

std::vector<MemberEvidence> RoundCore::evidence_of(TimePoint now, const Round& round) const {
  std::vector<MemberEvidence> members;
  members.reserve(round.members.size());
  for (const NodeInfo& member : round.members) {
    if (is_forgotten(member.id)) {
      continue;
    }
    const auto loss = losses_.find(member.id);
    const auto node = nodes_.find(member.id);
    MemberEvidence evidence;
    evidence.gone = loss != losses_.end() && loss->second.gone && !loss->second.late;
    evidence.heir = is_heir(member.id, round);
    // A node whose rounds we do not know yet does not count, because it may have left this round
    // for a later one.
    if (member.id == self_.id) {
      evidence.heard = now;
    } else if (node != nodes_.end() && node->second.knows_past) {
      evidence.heard = node->second.evidence;
    }
    members.push_back(evidence);
  }
  return members;
}

// Checking every member on every heartbeat would be quadratic. Evidence never becomes weaker, so a
// quorum found once is valid until quorum_until_.
void RoundCore::refresh_quorum(TimePoint now) {
  quorum_checked_ = now;
  std::optional<TimePoint> until = TimePoint::max();
  const auto limit = [&](const Round& round) {
    const auto heard = quorum_time(evidence_of(now, round));
    if (!heard || !until) {
      until.reset();
    } else if (*heard != TimePoint::max()) {
      until = std::min(*until, *heard + quorum_after(settings_.lease));
    }
  };
  limit(*base_);
  for (const RoundPtr& round : accepted_) {
    limit(*round);
  }
  quorum_until_ = until;
}

bool RoundCore::has_quorum(TimePoint now) {
  if (settings_.allow_split_brain) {
    return true;
  }
  // A positive result is valid until quorum_until_. Without a quorum every heartbeat would check
  // again, so the number of checks is limited.
  const bool stale = !quorum_until_ || *quorum_until_ <= now;
  if (stale &&
      (quorum_checked_ == TimePoint::min() || now - quorum_checked_ >= settings_.lease / 64)) {
    refresh_quorum(now);
  }
  return quorum_until_ && *quorum_until_ > now;
}

}  // namespace muster
