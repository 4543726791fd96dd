// SPDX-License-Identifier: Apache-2.0
// How LinkSockets authenticates nodes: introductions and TLS handshakes.
#include "io/connect.hpp"
#include "rendezvous/node/link_sockets.hpp"

#include <utility>

namespace muster {
namespace {

// The fatal TLS alert access_denied (RFC 8446 §6), which is sent instead of a ClientHello.
constexpr std::string_view kAccessDenied("\x15\x03\x03\x00\x02\x02\x31", 7);

// Plaintext is acceptable only if we offered no key, so that no impostor can turn encryption off.
bool may_reply(RoundReply reply, Proofs asked) {
  return (reply == RoundReply::plain && asked == Proofs::none) ||
         (reply == RoundReply::sealed && has(asked, Proofs::token)) ||
         (reply == RoundReply::credential && has(asked, Proofs::munge)) ||
         (reply == RoundReply::first_use && has(asked, Proofs::first_use)) ||
         (reply == RoundReply::job_key && has(asked, Proofs::job_key));
}

// Keys for nodes without a common secret.
constexpr Proofs kWithoutSecret = Proofs::first_use | Proofs::job_key;

// The strongest key that both sides can use without MUNGE. The meeting key comes last, because it
// proves nothing.
Proofs strongest(Proofs common) {
  for (const Proofs one : {Proofs::job_key, Proofs::token}) {
    if (has(common, one)) {
      return one;
    }
  }
  return Proofs::first_use;
}

RoundReply reply_of(Proofs proof) {
  return proof == Proofs::token     ? RoundReply::sealed
         : proof == Proofs::job_key ? RoundReply::job_key
                                    : RoundReply::first_use;
}

Proofs proof_of(RoundReply reply) {
  return reply == RoundReply::sealed    ? Proofs::token
         : reply == RoundReply::job_key ? Proofs::job_key
                                        : Proofs::first_use;
}

std::string peer_of(const Link& link) {
  return peer_address(link.fd.get()).host();
}

}  // namespace

void LinkSockets::set_job(std::string job,
                          const JobTrust* trust,
                          CredentialKeys* keys,
                          FirstUse* first_use) {
  const Proofs with = trust != nullptr ? Proofs::both : Proofs::munge;
  const Proofs without = trust != nullptr ? Proofs::token : Proofs::none;
  keys_.introduction = {.proofs = keys != nullptr ? with : without, .job = std::move(job)};
  keys_.token = trust;
  keys_.munge = keys;
  keys_.first_use = first_use;
}

// Used by callbacks of the credential service, because the link may have closed before they run.
Link* LinkSockets::find_live(LinkId id) {
  const auto found = links_.find(id);
  return found != links_.end() && is_live(*found->second) ? found->second.get() : nullptr;
}

// -- introductions -----------------------------------------------------------------------------

// If there is only a token, the ClientHello is sent along with the introduction, to save a round
// trip. After an unusable credential, the next connection offers only the token.
void LinkSockets::introduce(Link& link) {
  Introduction ours = keys_.introduction;
  if (keys_.first_use != nullptr) {
    const Proofs all = keys_.with(peer_of(link));
    const Proofs left = without(all, keys_.failed[peer_of(link)]);
    ours.proofs = left == Proofs::none ? all : left;  // never in plaintext
  } else if (!keys_.munge_fault.empty()) {
    ours.proofs = ours.proofs & Proofs::token;
  }
  link.offered = ours.proofs;
  link.output.push(std::make_shared<const std::string>(round_introduction(ours)));
  if (link.offered == Proofs::token) {
    use_key(link, Proofs::token);
    begin_tls(link);
  }
  touch(link);
}

void LinkSockets::begin_tls(Link& link) {
  link.channel = std::make_unique<SecureChannel>(*link.trust, SecureChannel::Side::client);
  release_some(link);
  touch(link);
}

void LinkSockets::take_introduction(Link& link) {
  const Introduction& theirs = link.decoder.introduction();
  Introduction ours = keys_.introduction;
  ours.proofs = keys_.accepted_with(peer_of(link));
  const std::string list = keys_.refused_by_list(peer_of(link), theirs.proofs);
  const bool is_unnamed = theirs.job == ours.job && !list.empty();
  if (const auto refusal = is_unnamed ? std::optional(unnamed_host(peer_of(link), list))
                                      : refusal_of(theirs, ours)) {
    link.output.push(std::make_shared<const std::string>(refuse_introduction(*refusal)));
    turn_away(link, *refusal, !is_unnamed);
    return;
  }
  link.offered = theirs.proofs & ours.proofs;
  if (has(link.offered, Proofs::munge)) {
    // Set this first, so that input is never read as plaintext while the credential is pending.
    link.sealed = true;
    keys_.munge->tell(now_, [this, id = link.id](const Result<std::string>& credential) {
      give_credential(id, credential);
    });
  } else if (link.offered != Proofs::none) {
    reply_sealed(link);
  } else {
    link.output.push(std::make_shared<const std::string>(round_reply(RoundReply::plain)));
    greet(link);
  }
}

void LinkSockets::reply_sealed(Link& link) {
  link.sealed = true;
  use_key(link, strongest(link.offered));
  const Proofs theirs = link.decoder.introduction().proofs;
  link.comes_again = (theirs & kWithoutSecret) != Proofs::none && theirs != link.proof;
  link.output.push(std::make_shared<const std::string>(round_reply(reply_of(link.proof))));
  touch(link);
}

void LinkSockets::use_key(Link& link, Proofs proof) {
  link.proof = proof;
  if (proof == Proofs::job_key) {
    // Share ownership, because the job key may be replaced while this link uses it.
    link.learned = keys_.first_use->job_key();
    link.trust = link.learned.get();
  } else {
    link.trust = proof == Proofs::token ? keys_.token : &keys_.first_use->meeting();
  }
}

void LinkSockets::give_credential(LinkId id, const Result<std::string>& credential) {
  Link* const link = find_live(id);
  if (link == nullptr) {
    return;
  }
  if (credential) {
    link->trust = &keys_.munge->own();
    link->output.push(std::make_shared<const std::string>(round_credential(*credential)));
    touch(*link);
  } else if (has(link->offered, Proofs::token)) {
    reply_sealed(*link);
  } else {
    const Refuse refusal{Refusal::wrong_token,
                         "this node cannot use " + credential.error().message};
    link->output.push(std::make_shared<const std::string>(refuse_introduction(refusal)));
    turn_away(*link, refusal);
  }
}

// The reply must be consistent with our introduction.
void LinkSockets::take_reply(Link& link) {
  const RoundReply reply = link.decoder.reply();
  if (reply == RoundReply::refused) {
    return;  // a Refuse with the reason follows
  }
  if (!may_reply(reply, link.offered)) {
    fail(link, LinkEnd::broken, "protocol error: its reply does not match our introduction");
    return;
  }
  if (reply == RoundReply::plain) {
    greet(link);
    return;
  }
  link.sealed = true;
  if (reply == RoundReply::credential) {
    keys_.munge->learn(link.decoder.credential(),
                       [this, id = link.id](const auto& key) { take_credential(id, key); });
  } else if (!link.channel) {
    use_key(link, proof_of(reply));
    begin_tls(link);
  }
}

void LinkSockets::take_credential(LinkId id, const Result<CredentialKeys::Key>& key) {
  Link* const link = find_live(id);
  if (link == nullptr) {
    return;
  }
  if (!key) {
    lose_credential(*link, key.error().message);
    return;
  }
  link->learned = *key;
  link->trust = link->learned.get();
  begin_tls(*link);
}

// A node that also has a token offers only the token on its next connection, and both proofs after
// that.
void LinkSockets::lose_credential(Link& link, const std::string& why) {
  if (keys_.token == nullptr && !keys_.met) {
    link.output.push(std::make_shared<const std::string>(kAccessDenied));
    static_cast<void>(link.output.flush(link.fd.get()));  // best effort: the link closes below
    sink_(MessageReceived{.link = link.id,
                          .message = std::make_shared<const RoundMessage>(other_munge(why))});
  }
  if (link.state != LinkState::dead) {
    fail(link, LinkEnd::broken, why);
  }
  // Set this last, because fail() clears it.
  if (keys_.token != nullptr) {
    keys_.munge_fault = why;
  }
}

// A node that also has a token reconnects with the token. Only a node without a token is reported.
void LinkSockets::note_departure(const Link& link) {
  if (link.state == LinkState::stranger && keys_.is_own_munge(link.trust) &&
      link.offered == Proofs::munge && !link.channel) {
    tell_refused(peer_address(link.fd.get()).host(), left_munge());
  }
}

void LinkSockets::greet(Link& link) {
  link.greeted = true;
  touch(link);
}

// A refusal for a wrong token may end the job, because the peer may be a node of this job. A
// refusal of a host that is not in the platform's list must not end the job (`may_end_job` is
// false).
void LinkSockets::turn_away(Link& link, const Refuse& why, bool may_end_job) {
  dismiss(link);
  const std::string from = peer_address(link.fd.get()).host();
  if (may_end_job && why.why == Refusal::wrong_token) {
    sink_(TokenRefused{from, why.text});
  }
  tell_refused(from, why);
}

void LinkSockets::tell_refused(const std::string& from, const Refuse& why) {
  const auto sentence = refusals_.add(now_, from, why);
  if (notice_ && sentence) {
    notice_(*sentence);
  }
}

// -- TLS ---------------------------------------------------------------------------------------

void LinkSockets::take_sealed(Link& link, std::string_view bytes) {
  if (!is_live(link)) {
    return;
  }
  // Until the key is known, a client waits for our reply, and a server for our ClientHello.
  if (link.trust == nullptr && !bytes.empty()) {
    fail(link, LinkEnd::broken, "protocol error: it sent data before the handshake completed");
    return;
  }
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
  // Release the output even after a failure, so that a refused stranger receives the TLS alert.
  release_some(link);
  touch(link);
  if (link.channel->state() == SecureChannel::State::failed) {
    lose_trust(link);
    return;
  }
  if (!link.greeted && link.channel->state() == SecureChannel::State::open) {
    // The meeting key is public, so it does not prove that the peer belongs to this job.
    keys_.met = keys_.met || link.proof != Proofs::first_use;
    end_handshake(link);
    if (link.state == LinkState::stranger) {
      if (link.proof == Proofs::first_use) {
        keys_.first_use->note_guest(peer_of(link));
      }
      set_deadline(link, now_ + limits_.hello);
    }
    greet(link);
  }
  if (!plain.empty()) {
    decode(link, plain);
  }
}

// Allocates nothing for a stranger until its first TLS record is complete. A peer that sends more
// than the largest record is turned away. A client has no reason to send more before our reply
// arrives, and we would have to buffer the data while the link waits for a handshake slot.
bool LinkSockets::begin_handshake(Link& link) {
  const FirstRecord first =
      link.input.size() > kMaxRecordBytes ? FirstRecord::foreign : look_at_first_record(link.input);
  if (first == FirstRecord::foreign) {
    turn_away_foreign(link);
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
  link.channel = std::make_unique<SecureChannel>(*link.trust, SecureChannel::Side::server);
  handshakes_.insert(link.id);
  set_deadline(link, now_ + limits_.handshake);
  return true;
}

// A node of the job sends this TLS alert if it cannot use our credential. A peer that sends
// anything else instead of a ClientHello is not a node of the job.
void LinkSockets::turn_away_foreign(Link& link) {
  if (keys_.is_own_munge(link.trust) && link.input == kAccessDenied) {
    turn_away(link, left_munge());
    return;
  }
  dismiss(link);
  tell_refused(peer_address(link.fd.get()).host(), other_token());
}

void LinkSockets::take_handshake(Link& link) {
  const std::string first = std::exchange(link.input, {});
  note_input(link);
  const std::size_t before = link.output.bytes();
  take_sealed(link, first);
  // There is no reply if the ClientHello was incomplete although the record was complete.
  const bool has_answer = link.output.bytes() > before;
  if (link.state == LinkState::stranger && !link.greeted && !has_answer) {
    turn_away_foreign(link);
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
    // The ClientHello is already in `input`.
    take_sealed(link, {});
  }
}

void LinkSockets::lose_trust(Link& link) {
  const std::string why = "TLS: " + link.channel->fault();
  if (!link.greeted && tries_another(link)) {
    return;
  }
  if (link.state == LinkState::stranger && !link.greeted) {
    turn_away(link, other_token());
    return;
  }
  // A node that has authenticated another node ignores refusals in plaintext.
  if (!link.greeted && link.channel->was_refused() && !keys_.met) {
    sink_(MessageReceived{.link = link.id,
                          .message = std::make_shared<const RoundMessage>(
                              other_token(std::exchange(keys_.munge_fault, {})))});
  }
  if (link.state != LinkState::dead) {
    fail(link, LinkEnd::broken, why);
  }
}

// Nodes that may have no common secret try one key after another. The connecting side omits the
// failed key next time. The accepting side closes the link without giving a reason if the peer has
// another key to try.
bool LinkSockets::tries_another(Link& link) {
  if (link.state == LinkState::stranger) {
    if (link.comes_again) {
      dismiss(link);
    }
    return link.comes_again;
  }
  if (keys_.first_use == nullptr || link.offered == link.proof) {
    return false;
  }
  const std::string peer = peer_of(link);
  fail(link, LinkEnd::broken, "TLS: " + link.channel->fault());
  // Record this last, because fail() erases the entry. Keys that we did not offer have failed on
  // earlier connections.
  keys_.failed[peer] = without(keys_.with(peer), link.offered) | link.proof;
  return true;
}

void LinkSockets::use_job_key(const std::string& secret) {
  if (keys_.first_use != nullptr) {
    keys_.first_use->learn(secret);
    keys_.failed.clear();
  }
}

}  // namespace muster
