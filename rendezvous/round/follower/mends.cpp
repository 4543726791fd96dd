// SPDX-License-Identifier: Apache-2.0
// LinkCore while ranks are replaced and the round's other workers continue to run (--restart=rank).
#include "rendezvous/round/follower/link_core.hpp"

#include <algorithm>
#include <utility>

namespace muster {

void LinkCore::begin_mends(std::int32_t restarts) {
  mends_.restarts = std::max(mends_.restarts, restarts);
  mends_.epoch = std::max(mends_.epoch, started_->id.number);
  lacking_.reset();
  mended_ = 0;
}

// If the workers are already being stopped, the round ends and the request is pointless.
void LinkCore::lack(TimePoint now, const LackingHere& lacks, NodeEffects& out) {
  if (work_ != Work::running) {
    return;
  }
  lacking_ = lacks;
  lacking_->message.round = started_->id;
  lacking_->message.cause.round = started_->id;
  if (state_ == State::attached) {
    send_lacking(now, out);
  }
}

void LinkCore::send_lacking(TimePoint now, NodeEffects& out) const {
  Lacking message = lacking_->message;
  message.cause.age = std::max(Duration{}, now - lacking_->seen_at);
  send(std::move(message), out);
}

void LinkCore::mended(std::uint64_t epoch, NodeEffects& out) {
  mended_ = epoch;
  if (state_ == State::attached && work_ == Work::running) {
    send(Mended{started_->id, epoch}, out);
  }
}

// Messages may be lost with their connection, so they are sent again after a Welcome. A coordinator
// that does not know that a finished node took part in the last mend would restart all workers.
void LinkCore::tell_mends(TimePoint now, NodeEffects& out) const {
  if ((work_ == Work::running || work_ == Work::finished) && mended_ != 0) {
    send(Mended{started_->id, mended_}, out);
  }
  if (work_ == Work::running && lacking_) {
    send_lacking(now, out);
  }
}

void LinkCore::take_mend_message(const RoundMessage& message, NodeEffects& out) {
  if (const auto* mend = std::get_if<Mend>(&message)) {
    take_mend(*mend, out);
  } else if (const auto* refused = std::get_if<NoMend>(&message)) {
    take_no_mend(*refused, out);
  }
}

void LinkCore::take_mend(const Mend& mend, NodeEffects& out) {
  const bool is_answer = lacking_ && mend.asker == self_.id &&
                         mend.number == lacking_->message.number &&
                         mend.ranks == lacking_->message.ranks;
  const bool is_new = mend.mends.epoch > mends_.epoch;
  const bool is_known = mend.mends.epoch == mends_.epoch;
  if (mend.round != started_->id || work_ != Work::running ||
      !(is_new || (is_known && is_answer))) {
    return;
  }
  mends_ = mend.mends;
  RunMend run{mend.mends, is_answer ? mend.number : 0, mend.ranks, mend.cause, mend.reason};
  if (is_answer) {
    lacking_.reset();
  }
  out.emplace_back(std::move(run));
}

void LinkCore::take_no_mend(const NoMend& refused, NodeEffects& out) {
  if (lacking_ && refused.round == started_->id && refused.number == lacking_->message.number) {
    lacking_.reset();
    out.emplace_back(RefuseMend{refused.number, refused.reason});
  }
}

}  // namespace muster
