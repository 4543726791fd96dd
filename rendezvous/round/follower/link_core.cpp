// SPDX-License-Identifier: Apache-2.0
// LinkCore while it follows a coordinator. The search for one is in finding_leader.cpp.
#include "rendezvous/round/follower/link_core.hpp"

#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/send_to.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kBeatsMax = 16;  // the leases of older heartbeats have expired

// Limits on the number of failures, and of failure details, that this node keeps for one round. A
// leader keeps the same number of details.
constexpr std::size_t kFailuresKept = 4096;
constexpr std::size_t kDetailsKept = kOtherFailuresMax;

}  // namespace

LinkCore::LinkCore(NodeSettings settings, NodeInfo self, std::uint64_t seed)
    : settings_(std::move(settings)),
      self_(std::move(self)),
      random_(seed),
      started_(std::make_shared<const Round>()),
      accepted_(started_),
      accepted_base_(started_),
      heard_of_(started_),
      gone_(settings_.lease),
      dialler_(settings_.endpoints) {}

void LinkCore::set_listener(const std::string& address, std::uint16_t port) {
  self_.address = address;
  self_.port = port;
}

void LinkCore::received(TimePoint now, const RoundMessage& message, NodeEffects& out) {
  if (state_ == State::joining) {
    answered(now, message, out);
    return;
  }
  if (state_ != State::attached) {
    return;
  }
  last_word_ = now;  // any message shows that the coordinator is alive
  if (const auto* pong = std::get_if<Pong>(&message)) {
    take_pong(*pong, out);
  } else if (const auto* proposal = std::get_if<Propose>(&message)) {
    take_proposal(now, *proposal, out);
  } else if (const auto* order = std::get_if<Start>(&message)) {
    take_start(now, *order, out);
  } else if (const auto* regroup = std::get_if<Regroup>(&message)) {
    take_regroup(*regroup, out);
  } else if (const auto* call = std::get_if<RollCall>(&message)) {
    if (work_ == Work::none) {  // while workers run, we are not waiting for a round
      out.emplace_back(ShowRollCall{*call, ""});
    }
  } else if (const auto* rounds = std::get_if<Rounds>(&message)) {
    take_rounds(*rounds, out);
  } else if (std::holds_alternative<ShowRounds>(message)) {
    send(Rounds{started_, accepted_, accepted_base_}, out);
  } else if (const auto* dismiss = std::get_if<Dismiss>(&message)) {
    dismissed(now, *dismiss, out);
  } else if (const auto* close = std::get_if<Close>(&message)) {
    end(EndClosed{*close}, out);
  } else if (const auto* redirect = std::get_if<Redirect>(&message)) {
    released(now, *redirect, out);
  } else if (const auto* refuse = std::get_if<Refuse>(&message)) {
    refused(*refuse, out);
  } else {
    take_mend_message(message, out);
  }
}

template <class End>
void LinkCore::end(End effect, NodeEffects& out) {
  drop_link(out);
  retry_at_.reset();
  state_ = State::ended;
  out.emplace_back(std::move(effect));
}

// -- lease ------------------------------------------------------------------------------------

// The heartbeat acknowledges the last reply that we received, so the coordinator knows which of its
// messages reached us. The coordinator's quorum is based on these acknowledgements.
void LinkCore::send_beat(TimePoint now, NodeEffects& out) {
  send(Beat{++beat_, heard_}, out);
  beats_.emplace_back(beat_, now);
  if (beats_.size() > kBeatsMax) {
    beats_.pop_front();
  }
  beat_due_ = now + beat_interval(settings_.lease);
}

// Heartbeats are answered in order. If a heartbeat is skipped, its lease is never granted.
void LinkCore::take_pong(const Pong& pong, NodeEffects& out) {
  heard_ = std::max(heard_, pong.sequence);
  while (!beats_.empty() && beats_.front().first <= pong.sequence) {
    if (beats_.front().first == pong.sequence) {
      answered_ = beats_.front().second;
    }
    if (beats_.front().first == pong.sequence && pong.granted) {
      gone_.note_grant(beats_.front().second, coordinator_.id);
      grant(beats_.front().second, out);
    }
    beats_.pop_front();
  }
}

// The lease starts when we sent the request, so the round-trip time shortens it.
void LinkCore::grant(TimePoint sent, NodeEffects& out) {
  if (work_ != Work::running && work_ != Work::ending) {
    return;
  }
  if (MUSTER_MUTATE("no fence")) {
    sent += settings_.lease * 100;
  }
  const TimePoint until = sent + fence_after(settings_.lease);
  if (!fence_at_ || until > *fence_at_) {  // a late reply must not shorten a newer lease
    fence_at_ = until;
    out.emplace_back(LeaseUntil{sent + guard_after(settings_.lease)});
  }
}

void LinkCore::end_lease(NodeEffects& out) {
  if (fence_at_) {
    out.emplace_back(LeaseUntil{TimePoint::max()});
  }
  fence_at_.reset();
}

// -- rounds -----------------------------------------------------------------------------------

// A round is running without us. Either we join it soon, or we wait as a spare while the job runs.
void LinkCore::take_rounds(const Rounds& rounds, NodeEffects& out) {
  heard_of_ = rounds.started;
  join_by_.reset();
  RollCall call;
  call.needed = static_cast<std::int32_t>(heard_of_->members.size());
  call.present = call.needed;
  for (const NodeInfo& member : heard_of_->members) {
    if (call.names.size() < kRollCallNamesMax) {
      call.names.push_back(member.name);
    }
  }
  if (work_ == Work::none) {
    out.emplace_back(ShowRollCall{std::move(call), ""});
  }
}

void LinkCore::store_opened(TimePoint now, const StoreOpened& opened, NodeEffects& out) {
  // The store was opened for a proposal that has since been abandoned, or for a coordinator that we
  // no longer follow.
  if (opened.round != accepted_->id || state_ != State::attached || work_ != Work::none) {
    return;
  }
  // After our Accept the round may start at any time, so the proposal can no longer be withdrawn.
  replaced_.reset();
  accept_sent_ = now;
  send(Accept{opened.round, opened.address, opened.port, opened.offer}, out);
}

void LinkCore::store_failed(const StoreFailed& failed, NodeEffects& out) {
  if (failed.round != accepted_->id) {
    return;
  }
  send(Leave{failed.error.message, true}, out);
  end(EndFailed{failed.error}, out);
}

void LinkCore::take_start(TimePoint now, const Start& start, NodeEffects& out) {
  const bool is_ours = accepted_->id.number > 0 && start.round == accepted_->id;
  if (!is_ours || work_ != Work::none || leaving_) {
    return;
  }
  // The round has started for the other members, even if Start arrives too late for us.
  started_ = std::exchange(accepted_, std::make_shared<const Round>());
  accepted_base_ = accepted_;
  replaced_.reset();
  failures_.clear();
  details_.clear();
  begin_mends(start.restarts);
  gone_.begin_round();
  // Start also grants a lease, and our Accept counts as the request for it.
  gone_.note_grant(accept_sent_, coordinator_.id);
  // Our lease starts with our Accept. Once it has expired, other nodes may continue without us.
  if (now >= accept_sent_ + fence_after(settings_.lease)) {
    MUSTER_MARK("the order to start came too late");
    lost_touch_ = true;
    send(Ready{lost_touch_}, out);
    return;
  }
  work_ = Work::running;
  inherits_.unconfirmed = false;
  record(out);
  lost_touch_ = false;
  join_by_.reset();
  grant(accept_sent_, out);
  out.emplace_back(
      RunRound{started_, accepted_rank_, start.master_addr, start.master_port, start.offer});
}

// The reply is sent immediately, before the workers exit, because failures are judged when all
// nodes have replied.
void LinkCore::take_regroup(const Regroup& regroup, NodeEffects& out) {
  if (work_ == Work::none) {
    return;
  }
  send(Stopping{started_->id}, out);
  stop_workers(regroup, out);
}

void LinkCore::stop_workers(const Regroup& why, NodeEffects& out) {
  if (work_ == Work::running || work_ == Work::finished) {
    work_ = Work::ending;
    out.emplace_back(StopWorkers{why.reason, why.gone, why.is_planned});
  }
}

// -- agent events -----------------------------------------------------------------------------

void LinkCore::take(TimePoint now, const NodeEvent& event, NodeEffects& out) {
  if (state_ == State::ended) {
    return;
  }
  if (std::holds_alternative<WorkersGone>(event)) {
    // WorkersGone is also the reply to a repeated stop request. Ignore that reply, because a Ready
    // after the Accept of the next round would be read as the end of that round.
    if (work_ != Work::none) {
      workers_gone(now, out);
    }
  } else if (const auto* opened = std::get_if<StoreOpened>(&event)) {
    store_opened(now, *opened, out);
  } else if (const auto* store = std::get_if<StoreFailed>(&event)) {
    store_failed(*store, out);
  } else if (const auto* recorded = std::get_if<RoundRecorded>(&event)) {
    accept_recorded(now, recorded->round, out);
  } else if (const auto* unrecorded = std::get_if<RecordFailed>(&event)) {
    record_failed(*unrecorded, out);
  } else if (const auto* failed = std::get_if<WorkerFailedHere>(&event)) {
    worker_failed(now, *failed, out);
  } else if (const auto* details = std::get_if<Details>(&event)) {
    take_details(*details, out);
  } else if (std::holds_alternative<WorkersFinished>(event)) {
    finish(now, out);
  } else if (const auto* asked = std::get_if<LeaveAsked>(&event)) {
    leave(now, *asked, out);
  } else if (const auto* lacks = std::get_if<LackingHere>(&event)) {
    lack(now, *lacks, out);
  } else if (const auto* ready = std::get_if<MendedHere>(&event)) {
    mended(ready->epoch, out);
  }
}

void LinkCore::workers_gone(TimePoint now, NodeEffects& out) {
  work_ = Work::none;
  end_lease(out);
  if (leaving_) {
    if (state_ == State::attached) {
      send(Leave{leave_reason_, true, leave_is_planned_}, out);
    }
    if (replaced_by_spare_) {
      end(EndReplaced{leave_reason_}, out);
    } else {
      end(EndLeft{}, out);
    }
    return;
  }
  join_by_ = now + settings_.join_timeout;
  if (state_ == State::attached) {
    send(Ready{lost_touch_}, out);
  }
}

// A report can be lost with its connection, so the node keeps the failures of the round and sends
// them again after each Welcome. The coordinator counts each of them once.
void LinkCore::worker_failed(TimePoint now, const WorkerFailedHere& failed, NodeEffects& out) {
  if (failures_.size() < kFailuresKept) {
    failures_.push_back(failed);
  }
  if (state_ == State::attached) {
    send_failure(now, failed, out);
  }
}

void LinkCore::take_details(const Details& details, NodeEffects& out) {
  if (details_.size() < kDetailsKept) {
    details_.push_back(details);
  }
  if (state_ == State::attached) {
    send(details, out);
  }
}

// Sends the age, not the time, because clocks of two hosts are never compared.
void LinkCore::send_failure(TimePoint now, const WorkerFailedHere& failed, NodeEffects& out) const {
  Failed message = failed.message;
  message.age = std::max(Duration{}, now - failed.seen_at);
  send(std::move(message), out);
}

// The workers have exited and cannot run at the same time as another round, so they need no lease
// any more. A report that arrives after WorkersGone is ignored, because the node is already ready
// for the next round.
void LinkCore::finish(TimePoint now, NodeEffects& out) {
  if (work_ == Work::none) {
    return;
  }
  if (work_ == Work::ending || leaving_) {
    workers_gone(now, out);
    return;
  }
  work_ = Work::finished;
  end_lease(out);
  if (state_ == State::attached) {
    send(Finished{started_->id}, out);
  }
}

// The node has finished, or a spare takes its place. In the second case its workers are stopping or
// have exited, and other nodes wait until this node has left.
void LinkCore::dismissed(TimePoint now, const Dismiss& why, NodeEffects& out) {
  if (why.reason.empty()) {
    if (work_ == Work::finished) {  // otherwise a Regroup crossed Finished and takes precedence
      end(EndFinished{}, out);
    }
    return;
  }
  if (leaving_ || (work_ != Work::none && work_ != Work::ending)) {
    return;
  }
  MUSTER_MARK("a spare takes the place of a node");
  leaving_ = true;
  replaced_by_spare_ = true;
  leave_reason_ = why.reason;
  if (work_ == Work::none) {
    workers_gone(now, out);
  }
}

// Leave is sent twice: now, so that the other nodes regroup, and again when our workers have
// exited, so that those nodes can start.
void LinkCore::leave(TimePoint now, const LeaveAsked& asked, NodeEffects& out) {
  leaving_ = true;
  replaced_by_spare_ = false;
  leave_reason_ = asked.reason;
  leave_is_planned_ = asked.is_planned;
  if (state_ == State::attached) {
    send(Leave{asked.reason, false, asked.is_planned}, out);
  }
  if (work_ == Work::none || work_ == Work::finished) {
    workers_gone(now, out);
  } else {
    work_ = Work::ending;
  }
}

// Reports our state after a Welcome.
void LinkCore::tell_work(TimePoint now, NodeEffects& out) {
  if (leaving_) {
    send(Leave{leave_reason_, false, leave_is_planned_}, out);
    return;
  }
  for (const WorkerFailedHere& failed : failures_) {
    send_failure(now, failed, out);
  }
  for (const Details& details : details_) {
    send(details, out);
  }
  tell_mends(now, out);
  if (work_ == Work::none) {
    send(Ready{lost_touch_}, out);
  } else if (work_ == Work::finished) {
    send(Finished{started_->id}, out);
  }
}

// -- losing the coordinator -------------------------------------------------------------------

// The workers keep running until the fence. If the connection to the coordinator is restored within
// the lease, no work is lost.
void LinkCore::detach(TimePoint now, NodeEffects& out) {
  drop_link(out);
  lost_ = coordinator_;
  lost_proven_ = false;
  lost_released_ = false;
  // Once a quorum has waited this long, no lease from this coordinator is valid any more.
  turn_at_ = last_word_ + settings_.lease;
  withdraw_proposal(out);
  if (!join_by_ && work_ == Work::none) {
    join_by_ = now + settings_.join_timeout;
  }
}

// The coordinator itself reports that it no longer leads, so there is no need to wait.
void LinkCore::released(TimePoint now, const Redirect& redirect, NodeEffects& out) {
  MUSTER_MARK("released to another coordinator");
  detach(now, out);
  lost_released_ = true;
  stop_workers({"another node leads the job"}, out);
  hint_ = redirect.coordinator;
  turn(now, out);
}

void LinkCore::closed(TimePoint now, const LinkClosed& ended, NodeEffects& out) {
  if (const auto index = dialler_.index_of(ended.link)) {
    endpoint_failed(now, *index, ended.text, out);
    return;
  }
  link_.reset();
  answer_by_.reset();
  if (state_ == State::attached) {
    detach(now, out);
    seek(now, out);
    return;
  }
  if (state_ != State::ended) {
    try_failed(now, ended.how, ended.text, out);
  }
}

void LinkCore::drop_link(NodeEffects& out) {
  if (link_ && *link_ != 0) {
    out.emplace_back(CloseLink{*link_});
  }
  link_.reset();
  dialler_.drop(out);
  answer_by_.reset();
  beats_.clear();  // replies to these heartbeats cannot arrive on a new connection
}

// -- time -------------------------------------------------------------------------------------

void LinkCore::tick(TimePoint now, NodeEffects& out) {
  if (state_ == State::ended || state_ == State::idle) {
    return;
  }
  if (fence_at_ && now >= *fence_at_) {
    MUSTER_MARK("fenced");
    end_lease(out);
    lost_touch_ = true;
    work_ = Work::ending;
    out.emplace_back(FenceWorkers{fmt::format("no message from node '{}' for {}",
                                              coordinator_.name,
                                              muster::describe(now - last_word_))});
  }
  if (join_by_ && now >= *join_by_ && work_ == Work::none) {
    if (trouble_.empty() && is_finding_leader()) {
      trouble_ = fmt::format("{} does not answer", target_.name);
    }
    send(Leave{"no round was formed in time", true}, out);
    end(EndFailed{Error{Errc::timed_out,
                        fmt::format("no round of job '{}' was formed within {}{}{}",
                                    settings_.terms.job_id,
                                    muster::describe(settings_.join_timeout),
                                    trouble_.empty() ? "" : ": ",
                                    trouble_)}},
        out);
    return;
  }
  if (state_ == State::attached) {
    // Link 0 leads to our own coordinator, which cannot fall silent.
    if (*link_ != 0 && now >= last_word_ + settings_.lease) {
      MUSTER_MARK("the coordinator has been silent for a lease");
      detach(now, out);
      turn(now, out);
    } else if (now >= beat_due_) {
      send_beat(now, out);
    }
    return;
  }
  if (retry_at_ && now >= *retry_at_) {
    retry_at_.reset();
    seek(now, out);
  } else if (answer_by_ && now >= *answer_by_) {
    drop_link(out);
    try_failed(now, LinkEnd::unreachable, fmt::format("'{}' does not answer", target_.name), out);
  } else if (is_reconnecting() && now >= turn_at_) {
    drop_link(out);
    turn(now, out);
  } else if (state_ == State::dialling) {
    dialler_.tick(now, next_link_, out);
  }
  show_trouble(now, out);
}

std::optional<TimePoint> LinkCore::next_deadline() const {
  if (state_ == State::ended || state_ == State::idle) {
    return std::nullopt;
  }
  std::optional<TimePoint> next;
  const auto also = [&next](std::optional<TimePoint> when) {
    if (when) {
      next = next ? std::min(*next, *when) : *when;
    }
  };
  also(fence_at_);
  if (work_ == Work::none) {
    also(join_by_);
  }
  if (state_ == State::attached) {
    also(beat_due_);
    if (*link_ != 0) {
      also(last_word_ + settings_.lease);
    }
    return next;
  }
  also(retry_at_);
  also(answer_by_);
  if (state_ == State::dialling) {
    also(dialler_.next_deadline());
  }
  if (is_reconnecting()) {
    also(turn_at_);
  }
  if (trouble_ != trouble_shown_ && work_ == Work::none) {
    also(trouble_due_);
  }
  return next;
}

void LinkCore::send(RoundMessage message, NodeEffects& out) const {
  if (link_) {
    send_to(*link_, std::move(message), out);
  }
}

std::string LinkCore::describe() const {
  static constexpr std::array kStates{
      "idle", "pausing", "dialling", "connecting", "joining", "attached", "ended"};
  static constexpr std::array kWorks{"none", "running", "ending", "finished"};
  return fmt::format("{} work={} started={} accepted={} to={}",
                     kStates.at(static_cast<std::size_t>(state_)),
                     kWorks.at(static_cast<std::size_t>(work_)),
                     started_->id.number,
                     accepted_->id.number,
                     state_ == State::attached ? coordinator_.name : target_.name);
}

}  // namespace muster
