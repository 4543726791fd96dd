// SPDX-License-Identifier: Apache-2.0
// LinkSockets before it believes anybody: introductions, and the handshakes of TLS.
#include "io/connect.hpp"
#include "rendezvous/node/link_sockets.hpp"

#include <utility>

namespace muster {

void LinkSockets::set_job(std::string job, const JobTrust* trust) {
  introduction_ = {.sealed = trust != nullptr, .job = std::move(job)};
  trust_ = trust;
}

// -- introductions -----------------------------------------------------------------------------

// The first words of TLS go along: if the other side agrees, it has them already.
void LinkSockets::introduce(Link& link) {
  link.output.push(std::make_shared<const std::string>(round_introduction(introduction_)));
  if (trust_ != nullptr) {
    link.channel = std::make_unique<SecureChannel>(*trust_, SecureChannel::Side::client);
    release_some(link);
  }
  touch(link);
}

void LinkSockets::take_introduction(Link& link) {
  if (const auto refusal = refusal_of(link.decoder.introduction(), introduction_)) {
    link.output.push(std::make_shared<const std::string>(refuse_introduction(*refusal)));
    turn_away(link, *refusal);
    return;
  }
  link.sealed = trust_ != nullptr;
  const RoundReply reply = link.sealed ? RoundReply::sealed : RoundReply::plain;
  link.output.push(std::make_shared<const std::string>(round_reply(reply)));
  touch(link);
  if (!link.sealed) {
    greet(link);
  }
}

// Whatever it is, it has to be what we asked for.
void LinkSockets::take_reply(Link& link) {
  const RoundReply reply = link.decoder.reply();
  if (reply == RoundReply::refused) {
    return;  // the reason follows
  }
  if ((reply == RoundReply::sealed) != (trust_ != nullptr)) {
    fail(link, LinkEnd::broken, "it answers with TLS, or without, though it was asked otherwise");
    return;
  }
  link.sealed = trust_ != nullptr;
  if (!link.sealed) {
    greet(link);
  }
}

void LinkSockets::greet(Link& link) {
  link.greeted = true;
  touch(link);
}

void LinkSockets::turn_away(Link& link, const Refuse& why) {
  const auto sentence = refusals_.add(now_, peer_address(link.fd.get()).host(), why);
  dismiss(link);
  if (notice_ && sentence) {
    notice_(*sentence);
  }
}

// -- TLS ---------------------------------------------------------------------------------------

void LinkSockets::take_sealed(Link& link, std::string_view bytes) {
  if (!link.channel) {
    link.input.append(bytes);
    note_input(link);
    if (is_live(link) && begin_handshake(link)) {
      take_handshake(link);
    }
    return;
  }
  std::string plain;
  link.channel->feed(bytes, plain);
  release_some(link);
  touch(link);
  if (link.channel->state() == SecureChannel::State::failed) {
    lose_trust(link);
    return;
  }
  if (!link.greeted && link.channel->state() == SecureChannel::State::open) {
    met_trusted_ = true;
    end_handshake(link);
    if (link.state == LinkState::stranger) {
      set_deadline(link, now_ + limits_.hello);
    }
    greet(link);
  }
  if (!plain.empty()) {
    decode(link, plain);
  }
}

// Nothing is made for a stranger before its proof is here as a whole.
bool LinkSockets::begin_handshake(Link& link) {
  const FirstRecord first = look_at_first_record(link.input);
  if (first == FirstRecord::foreign) {
    turn_away(link, other_token());
  }
  if (first != FirstRecord::whole) {
    return false;
  }
  if (handshakes_.size() >= limits_.handshakes) {
    link.awaits_turn = true;
    turns_.push_back(link.id);
    arm(link);
    return false;
  }
  link.channel = std::make_unique<SecureChannel>(*trust_, SecureChannel::Side::server);
  handshakes_.insert(link.id);
  set_deadline(link, now_ + limits_.handshake);
  return true;
}

void LinkSockets::take_handshake(Link& link) {
  const std::string first = std::exchange(link.input, {});
  note_input(link);
  const std::size_t before = link.output.bytes();
  take_sealed(link, first);
  // It has our answer now, or it has sent a part of its words as if they were all.
  const bool has_answer = link.output.bytes() > before;
  if (link.state == LinkState::stranger && !link.greeted && !has_answer) {
    turn_away(link, other_token());
  }
}

void LinkSockets::end_handshake(Link& link) {
  handshakes_.erase(link.id);
}

void LinkSockets::take_turns() {
  while (!turns_.empty() && handshakes_.size() < limits_.handshakes) {
    const auto found = links_.find(turns_.front());
    turns_.pop_front();
    if (found == links_.end() || found->second->state != LinkState::stranger) {
      continue;
    }
    Link& link = *found->second;
    link.awaits_turn = false;
    arm(link);
    take_sealed(link, {});
  }
}

void LinkSockets::lose_trust(Link& link) {
  const std::string why = "TLS: " + link.channel->fault();
  if (link.state == LinkState::stranger && !link.greeted) {
    turn_away(link, other_token());
    return;
  }
  // Nobody's word in the clear counts for a node that has met its own.
  if (!link.greeted && link.channel->was_refused() && !met_trusted_) {
    sink_(MessageReceived{.link = link.id,
                          .message = std::make_shared<const RoundMessage>(other_token())});
  }
  if (link.state != LinkState::dead) {
    fail(link, LinkEnd::broken, why);
  }
}

}  // namespace muster
