// SPDX-License-Identifier: Apache-2.0
// LinkCore while it has no coordinator: chooses which nodes to try and in which order, and decides
// when this node leads.
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/follower/link_core.hpp"
#include "rendezvous/round/leader/ranking.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// Nodes with stale information may redirect us to each other.
constexpr int kRedirectsMax = 8;

// The maximum number of members that a spare tries to reach. A spare knows the members but is not
// one of them.
constexpr std::size_t kStrangersMax = 8;

constexpr Duration kTroubleAfter = std::chrono::seconds(1);

// True if the endpoint list contains the same host with another port. The host may be listening on
// that other port, because another job may be using `port`.
bool is_candidate(const std::vector<Endpoint>& endpoints,
                  const std::string& host,
                  std::uint16_t port) {
  return std::ranges::any_of(endpoints, [&](const Endpoint& other) {
    return other.host == host && other.port.value_or(0) != port;
  });
}

}  // namespace

void LinkCore::begin(TimePoint now, const NodeStarted& started, NodeEffects& out) {
  join_by_ = now + (settings_.rejoins ? std::min(settings_.join_timeout, kRejoinTimeout)
                                      : settings_.join_timeout);
  trouble_due_ = now + kTroubleAfter;
  reserve_until_ = now + settings_.reserve;
  hosts_ = started.hosts;
  may_host_ = started.may_host;
  if (started.memory) {
    recall(now, *started.memory, out);
  }
  if (started.hosts && !settings_.rejoins) {
    ask_to_lead(now, true, out);
  } else {
    turn(now, out);
  }
}

bool LinkCore::is_finding_leader() const {
  return state_ == State::pausing || state_ == State::dialling || state_ == State::connecting ||
         (state_ == State::joining && link_ != LinkId{0});
}

// True if we have not learned of any round, and the leader that we followed, if any, is proven
// dead. A node that rejoins waits until a leader queries its endpoint.
bool LinkCore::may_found() const {
  return !settings_.rejoins && members().id.number == 0 && (lost_.id == 0 || lost_proven_);
}

// True for a founder that yielded to another leader. Newcomers look for the job at the first
// endpoint, where they find only this node.
bool LinkCore::has_yielded() const {
  return hosts_ && members().id.number == 0 && led_by_.id != 0;
}

// A founder that has yielded founds the job again only if the other leader is proven dead.
bool LinkCore::founds_again() const {
  return has_yielded() && gone_.contains(led_by_.id);
}

bool LinkCore::needs_proof() const {
  return has_yielded() && !gone_.contains(led_by_.id);
}

// This node has now bound the endpoint. If a leader has welcomed us, we only listen there.
void LinkCore::endpoint_bound(TimePoint now, NodeEffects& out) {
  hosts_ = true;
  may_host_ = false;
  if (!is_finding_leader() || !may_found()) {
    return;
  }
  MUSTER_MARK("the endpoint is bound after the start");
  drop_link(out);
  hint_.reset();
  ask_to_lead(now, true, out);
}

// True if the coordinator is proven dead, was silent for a whole lease, or has released us.
bool LinkCore::may_turn(TimePoint now) const {
  if (MUSTER_MUTATE("lease not waited")) {
    return true;
  }
  return lost_.id == 0 || lost_proven_ || lost_released_ || now >= turn_at_;
}

// The latest known membership.
const Round& LinkCore::members() const {
  const Round& ours = accepted_->id.number > 0 ? *accepted_ : *started_;
  return heard_of_->id > ours.id ? *heard_of_ : ours;
}

// The nodes to try, in group rank order up to this node. A node that reaches itself in the list
// leads.
std::vector<LinkCore::Target> LinkCore::make_walk() const {
  std::vector<Target> walk;
  if (needs_proof()) {
    walk.push_back(Target{led_by_.id, led_by_.name, led_by_.address, led_by_.port});
  }
  const auto& nodes = members().members;
  const bool is_member = std::ranges::find(nodes, self_.id, &NodeInfo::id) != nodes.end();
  for (const NodeInfo& node : nodes) {
    if (node.id == self_.id || (!is_member && walk.size() == kStrangersMax)) {
      break;
    }
    if (!gone_.contains(node.id)) {
      walk.push_back(Target{node.id, node.name, node.address, node.port});
    }
  }
  if (is_member) {
    walk.push_back(Target{self_.id, self_.name, "", 0});
    return walk;
  }
  // A node that is not a member does not take over the job. If no member responds, a leader may
  // have bound one of the endpoints.
  for (std::size_t i = needs_proof() ? 1 : 0; i < settings_.endpoints.size(); ++i) {
    walk.push_back(endpoint_target(i));
  }
  return walk;
}

LinkCore::Target LinkCore::endpoint_target(std::size_t index) const {
  const Endpoint& endpoint = settings_.endpoints[index];
  return Target{0, endpoint.describe(), endpoint.host, endpoint.port.value_or(0), index};
}

void LinkCore::seek(TimePoint now, NodeEffects& out) {
  if (may_turn(now)) {
    if (walk_.empty()) {
      walk_ = make_walk();
      walked_ = 0;
    }
    try_next(now, out);
    return;
  }
  // The rule does not allow us to follow another node yet. Retry the lost coordinator, which may be
  // alive if only the connection failed.
  walk_.clear();
  walked_ = 0;
  try_target(Target{lost_.id, lost_.name, lost_.address, lost_.port},
             std::min(kConnectTimeout, settings_.lease),
             out);
}

// Restarts the walk at the beginning of the list.
void LinkCore::turn(TimePoint now, NodeEffects& out) {
  walk_ = make_walk();
  walked_ = 0;
  pause_ = kSeekPauseFirst;
  try_next(now, out);
}

void LinkCore::try_next(TimePoint now, NodeEffects& out) {
  const bool is_fresh = members().id.number == 0;
  // A member that does not respond must not delay the next one for long (rendezvous/README.md, "Who
  // leads after a loss").
  const Duration timeout = is_fresh ? kConnectTimeout : settings_.lease / 4;
  if (hint_) {
    const NodeInfo leader = *std::exchange(hint_, std::nullopt);
    try_target(Target{leader.id, leader.name, leader.address, leader.port}, timeout, out);
    return;
  }
  if (founds_again()) {
    MUSTER_MARK("a founder that has yielded founds the job again");
    ask_to_lead(now, true, out);
    return;
  }
  if (is_fresh && settings_.endpoints.size() > 1 && !needs_proof()) {
    dial_endpoints(now, out);
    return;
  }
  if (walked_ >= walk_.size()) {
    walk_.clear();
    walked_ = 0;
    pause(now, jitter(pause_));
    pause_ = std::min(pause_ * 2, kSeekPauseMost);
    return;
  }
  Target target = walk_[walked_++];
  if (target.id == self_.id) {
    ask_to_lead(now, false, out);
    return;
  }
  try_target(std::move(target), timeout, out);
}

// A fresh node knows only the endpoints, and tries all of them.
void LinkCore::dial_endpoints(TimePoint now, NodeEffects& out) {
  state_ = State::dialling;
  target_ = endpoint_target(0);
  retry_at_.reset();
  dialler_.begin(now);
  dialler_.tick(now, next_link_, out);
}

void LinkCore::endpoint_failed(TimePoint now,
                               std::size_t index,
                               const std::string& why,
                               NodeEffects& out) {
  if (settings_.endpoints.size() > 1) {
    dialler_.fail(now, index, why, now + jitter(dialler_.pause_of(index)));
    trouble_ = "cannot reach " + dialler_.trouble();
  }
  // Another program may have used our port at startup. If no node bound it later, all nodes would
  // wait until join_timeout.
  if (may_host_ && may_found()) {
    out.emplace_back(BindEndpoint{});
  }
  if (state_ == State::dialling) {
    dialler_.tick(now, next_link_, out);
  }
}

void LinkCore::try_target(Target target, Duration timeout, NodeEffects& out) {
  target_ = std::move(target);
  state_ = State::connecting;
  link_ = next_link_;
  next_link_ += 4;
  retry_at_.reset();
  out.emplace_back(OpenLink{*link_, target_.host, target_.port, timeout});
}

void LinkCore::opened(TimePoint now, LinkId link, NodeEffects& out) {
  if (const auto index = dialler_.index_of(link)) {
    dialler_.take(*index);
    dialler_.drop(out);
    target_ = endpoint_target(*index);
    link_ = link;
  } else if (state_ != State::connecting) {
    return;
  }
  state_ = State::joining;
  const bool is_fresh = members().id.number == 0;
  answer_by_ = now + (is_fresh ? kAnswerTimeout : settings_.lease / 4);
  send(hello(now), out);
}

Hello LinkCore::hello(TimePoint now) const {
  Hello hello;
  hello.terms = settings_.terms;
  hello.node = self_;
  hello.started = started_->id;
  hello.accepted = MUSTER_MUTATE("proposals forgotten") ? RoundId{} : accepted_->id;
  hello.lost = lost_.id;
  // After a release, or if the death was proven within the lease, we have not waited for a whole
  // lease. The last coordinator may have granted leases to other nodes shortly before.
  const bool has_waited = lost_.id == 0 || (!lost_released_ && now >= turn_at_);
  hello.waited = has_waited && now >= quiet_at_;
  hello.running = work_ == Work::running || work_ == Work::ending;
  hello.inherits = inherits_;
  hello.mends = mends_;
  hello.reserve = std::max(Duration{}, reserve_until_ - now);
  hello.addresses = settings_.addresses;
  return hello;
}

// -- failed attempts --------------------------------------------------------------------------

void LinkCore::try_failed(TimePoint now, LinkEnd how, const std::string& text, NodeEffects& out) {
  state_ = State::pausing;
  trouble_ = fmt::format("cannot reach {}: {}", target_.name, text);
  if (target_.id == 0) {
    endpoint_failed(now, target_.endpoint, text, out);
  }
  // A refused connection proves that the node is dead only if the port is the node's own, which the
  // guard keeps open until the workers have exited. GoneNodes makes an exception for small rounds,
  // so it gets the size of the larger of the two rounds.
  if (how == LinkEnd::refused && target_.id != 0) {
    const auto members = std::max(started_->members.size(), accepted_->members.size());
    gone_.add(now, target_.id, members);
  }
  if (lost_.id != 0 && target_.id == lost_.id && !may_turn(now)) {
    if (how == LinkEnd::refused) {
      MUSTER_MARK("proof that the coordinator is gone");
      lost_proven_ = true;
      stop_workers({fmt::format("node '{}', which led the job, is gone", lost_.name),
                    ranks_of(*started_, lost_.id)},
                   out);
      turn(now, out);
      return;
    }
    // A connection that is closed without a message was closed by the guard, which is still killing
    // the workers of its dead agent.
    pause(now, jitter(how == LinkEnd::closed ? kGuardPause : kLostPause));
    return;
  }
  if (how == LinkEnd::closed && target_.id != 0) {
    // The node or its guard is alive. Retry the same node after a short pause.
    walked_ = walked_ > 0 && walk_[walked_ - 1].id == target_.id ? walked_ - 1 : walked_;
    pause(now, jitter(kFollowPause));
    return;
  }
  try_next(now, out);
}

void LinkCore::pause(TimePoint now, Duration pause) {
  state_ = State::pausing;
  retry_at_ = now + pause;
}

// A random duration between half of the pause and the whole pause.
Duration LinkCore::jitter(Duration pause) {
  random_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  const auto half = static_cast<std::uint64_t>(pause.count() / 2 + 1);
  return Duration(pause.count() / 2 + static_cast<Duration::rep>((z ^ (z >> 31)) % half));
}

// -- answers ----------------------------------------------------------------------------------

void LinkCore::answered(TimePoint now, const RoundMessage& message, NodeEffects& out) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcomed(now, *welcome, out);
  } else if (const auto* redirect = std::get_if<Redirect>(&message)) {
    redirected(now, *redirect, out);
  } else if (const auto* refuse = std::get_if<Refuse>(&message)) {
    const bool passes_over = refuse->why == Refusal::wrong_job && target_.id == 0 &&
                             is_candidate(settings_.endpoints, target_.host, target_.port);
    if (passes_over) {
      drop_link(out);
      state_ = State::pausing;
      endpoint_failed(now, target_.endpoint, "it serves a different job", out);
      trouble_ =
          fmt::format("{} serves a different job, not '{}'", target_.name, settings_.terms.job_id);
      try_next(now, out);
    } else {
      refused(*refuse, out);
    }
  } else if (const auto* close = std::get_if<Close>(&message)) {
    end(EndClosed{*close}, out);
  }
}

void LinkCore::redirected(TimePoint now, const Redirect& redirect, NodeEffects& out) {
  drop_link(out);
  const NodeId leader = redirect.coordinator.id;
  const bool is_useful = leader != self_.id && !gone_.contains(leader) && leader != target_.id &&
                         ++redirects_ <= kRedirectsMax;
  if (is_useful && may_turn(now)) {
    hint_ = redirect.coordinator;
    try_next(now, out);
    return;
  }
  // The other node does not know yet that its leader is unreachable.
  redirects_ = 0;
  trouble_ = fmt::format("'{}' follows a node that is unreachable", target_.name);
  // Retry the same node, which will soon detect that its leader is unreachable.
  walked_ = walked_ > 0 ? walked_ - 1 : 0;
  pause(now, jitter(kFollowPause));
}

void LinkCore::refused(const Refuse& refuse, NodeEffects& out) {
  const Errc code = refuse.why == Refusal::closed ? Errc::closed : Errc::usage;
  end(EndFailed{Error{code, fmt::format("refused by {}: {}", target_.name, refuse.text)}}, out);
}

void LinkCore::welcomed(TimePoint now, const Welcome& welcome, NodeEffects& out) {
  // A node stops the workers of another coordinator's round without being asked. So the new
  // coordinator sends no Regroup (RoundCore::end_old_round).
  if (work_ == Work::running && welcome.coordinator.id != started_->id.coordinator) {
    stop_workers({fmt::format("node '{}' leads the job now", welcome.coordinator.name)}, out);
  }
  if (!welcome.job_key.empty()) {
    out.emplace_back(UseJobKey{welcome.job_key});
  }
  state_ = State::attached;
  coordinator_ = welcome.coordinator;
  led_by_ = coordinator_.id == self_.id ? NodeInfo{} : coordinator_;
  answer_by_.reset();
  last_word_ = now;
  lost_ = NodeInfo{};
  gone_.forget();
  walk_.clear();
  walked_ = 0;
  redirects_ = 0;
  pause_ = kSeekPauseFirst;
  dialler_.forget_failures();
  trouble_.clear();
  // Message numbers restart on the new connection. The Welcome is number 0 (RoundCore::attach).
  beats_.clear();
  answered_.reset();
  heard_ = 0;
  beat_ = 0;
  // Send the heartbeat first, because Ready counts only for a node that has sent one.
  send_beat(now, out);
  tell_work(now, out);
}

// -- leading ----------------------------------------------------------------------------------

void LinkCore::ask_to_lead(TimePoint now, bool founder, NodeEffects& out) {
  MUSTER_MARK("a node begins to lead");
  lead_ = Lead{started_,
               accepted_,
               accepted_base_,
               founder,
               hello(now).waited,
               gone_.in_touch_until(),
               gone_.in_time(),
               inherits_};
  if (MUSTER_MUTATE("proposals forgotten")) {
    lead_->accepted = std::make_shared<const Round>();
  }
  state_ = State::joining;
  retry_at_.reset();
  link_ = 0;
  target_ = Target{self_.id, self_.name, "", 0};
  send(hello(now), out);
}

std::optional<Lead> LinkCore::take_lead() {
  return std::exchange(lead_, std::nullopt);
}

void LinkCore::hint(TimePoint now, const NodeInfo& leader, NodeEffects& out) {
  if (!is_finding_leader() || !may_turn(now) || leader.id == target_.id) {
    return;
  }
  drop_link(out);
  hint_ = leader;
  try_next(now, out);
}

void LinkCore::follow(TimePoint now, const NodeInfo& other, NodeEffects& out) {
  link_.reset();
  // Act like a follower that was released by its coordinator, which is this node itself.
  coordinator_ = self_;
  last_word_ = now;
  detach(now, out);
  lost_released_ = true;
  stop_workers({fmt::format("node '{}' leads the job", other.name)}, out);
  led_by_ = other;
  hint_ = other;
  turn(now, out);
}

void LinkCore::show_trouble(TimePoint now, NodeEffects& out) {
  if (now < trouble_due_ || trouble_ == trouble_shown_ || work_ != Work::none) {
    return;
  }
  trouble_shown_ = trouble_;
  trouble_due_ = now + kTroubleAfter;
  out.emplace_back(ShowRollCall{RollCall{}, trouble_});
}

}  // namespace muster
