// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/questions/inquiry.hpp"

#include "rendezvous/round/send_to.hpp"

#include <utility>

namespace muster {

std::optional<TimePoint> Inquiry::next_deadline() const {
  if (state_ == State::asking) {
    return std::min(scan_due_, asked_at_ + answer_max_);
  }
  return wanted_ && state_ == State::idle ? std::optional(not_before_) : std::nullopt;
}

void Inquiry::drop() {
  // number_ is kept, because followers ignore a verdict whose number is not higher than that of the
  // last verdict.
  state_ = State::idle;
  round_ = nullptr;
  wanted_ = false;
  answers_.clear();
  awaited_.clear();
  last_ = nullptr;
}

// -- asking -----------------------------------------------------------------------------------

void Inquiry::asked(TimePoint now,
                    LinkId from,
                    const Inquire& said,
                    const InquiryMembers& members,
                    NodeEffects& out) {
  if (state_ != State::idle) {
    return;  // the member will receive the verdict of the current inquiry
  }
  // Sent before the verdict arrived, or the last verdict was lost. A job is preempted only once.
  if (last_ && (said.heard < number_ || is_preemption(topic_))) {
    out.emplace_back(SendMessage{from, last_});
    return;
  }
  request_ = said.request;
  if (now < not_before_) {
    // The request belongs to this round, and end_inquiries_with_round() drops it with the round.
    wanted_ = true;
    round_ = members.round;
    return;
  }
  begin(now, members, out);
}

void Inquiry::begin(TimePoint now, const InquiryMembers& members, NodeEffects& out) {
  state_ = State::asking;
  round_ = members.round;
  wanted_ = false;
  last_ = nullptr;
  ++number_;
  asked_at_ = now;
  scan_due_ = now + inquiry_scan(lease_);
  answers_.clear();
  awaited_.clear();
  std::int64_t rank = 0;
  for (const NodeInfo& member : round_->members) {
    const auto first = static_cast<std::int32_t>(std::min<std::int64_t>(rank, INT32_MAX));
    NodeAnswer answer{.name = member.name, .ranks = {first, member.nproc}};
    rank += member.nproc;
    const MemberContact contact = members.contact(member.id);
    if (contact.finished) {
      answer.presence = Presence::finished;
    } else {
      // A member without a connection is awaited too: it may reconnect (attached).
      awaited_.emplace(member.id, answers_.size());
      if (contact.link) {
        ask(*contact.link, out);
      }
    }
    answers_.push_back(std::move(answer));
  }
  // All members may have finished already.
  conclude(out);
}

void Inquiry::ask(LinkId link, NodeEffects& out) const {
  const Look look{
      round_->id, number_, kAnswerWithin, findings_max(round_->members.size()), topic_, request_};
  send_to(link, look, out);
}

void Inquiry::attached(NodeId id, const InquiryMembers& members, NodeEffects& out) {
  const MemberContact contact = members.contact(id);
  if (!contact.link) {
    return;
  }
  if (state_ == State::asking && awaited_.contains(id)) {
    ask(*contact.link, out);
  } else if (state_ == State::idle && last_ && is_preemption(topic_)) {
    out.emplace_back(SendMessage{*contact.link, last_});  // it may have missed the decision
  }
}

// -- answers ----------------------------------------------------------------------------------

void Inquiry::take(NodeId from, const Looked& said, NodeEffects& out) {
  // Together, the answers must not exceed kFindingsOfAllMax, no matter what a member sends.
  const auto found = awaited_.find(from);
  if (state_ != State::asking || said.inquiry != number_ || found == awaited_.end() ||
      said.findings.size() > findings_max(answers_.size())) {
    return;
  }
  NodeAnswer& answer = answers_[found->second];
  answer.presence = Presence::answered;
  answer.findings = said.findings;
  awaited_.erase(found);
  conclude(out);
}

void Inquiry::tick(TimePoint now, const InquiryMembers& members, NodeEffects& out) {
  if (state_ == State::asking && now >= *next_deadline()) {
    scan(now, members);
    conclude(out);
  } else if (state_ == State::idle && wanted_ && now >= not_before_) {
    begin(now, members, out);
  }
}

// Stops waiting for nodes that will not answer.
void Inquiry::scan(TimePoint now, const InquiryMembers& members) {
  scan_due_ = now + inquiry_scan(lease_);
  const bool over = now >= asked_at_ + answer_max_;
  std::erase_if(awaited_, [&](const auto& entry) {
    NodeAnswer& answer = answers_[entry.second];
    const MemberContact contact = members.contact(entry.first);
    if (contact.finished) {
      answer.presence = Presence::finished;
      return true;
    }
    // This node's own contact time is TimePoint::max() (contact_of).
    const Duration silent = std::max(now - contact.heard, Duration::zero());
    if (silent < silent_after(lease_) && !over) {
      return false;
    }
    const bool beats = silent < silent_after(lease_);
    answer.presence = beats ? Presence::late : Presence::silent;
    answer.silent_for = beats ? now - asked_at_ : silent;
    return true;
  });
}

void Inquiry::conclude(NodeEffects& out) {
  if (!awaited_.empty()) {
    return;
  }
  state_ = State::judging;
  out.emplace_back(JudgeNow{round_->id, number_, std::exchange(answers_, {}), topic_, request_});
}

// -- completion ------------------------------------------------------------------------------

void Inquiry::judged(TimePoint now,
                     const Judged& said,
                     const InquiryMembers& members,
                     NodeEffects& out) {
  // The inquiry may have been dropped while the agent judged it.
  if (state_ != State::judging || said.inquiry != number_ || said.round != round_->id) {
    return;
  }
  state_ = State::idle;
  not_before_ = now + kBetweenInquiries;
  last_ = std::make_shared<const RoundMessage>(said);
  for (const NodeInfo& member : round_->members) {
    if (const MemberContact contact = members.contact(member.id); contact.link) {
      out.emplace_back(SendMessage{*contact.link, last_});
    }
  }
}

}  // namespace muster
