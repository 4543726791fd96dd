// SPDX-License-Identifier: Apache-2.0
#include "io/user_admission.hpp"

#include "base/text.hpp"
#include "io/own_address.hpp"

#include <limits>
#include <string>
#include <utility>

namespace muster {
namespace {

constexpr uid_t kRoot = 0;

// The invalid uid (-1).
constexpr std::int64_t kNoUser = std::numeric_limits<uid_t>::max();

std::string name_of(uid_t user) {
  return user == kRoot ? "root" : "user " + std::to_string(user);
}

}  // namespace

// Root can read and change anything, so rejecting root would protect nothing. If descriptors or
// memory are exhausted, no peer is admitted, because any user could cause that condition.
PeerVerdict judge_peer(const PeerFacts& facts, uid_t user) {
  if (!facts.owner && facts.owner.error().code != Errc::not_possible) {
    return PeerVerdict::unanswered;
  }
  if (!facts.owner) {
    return facts.is_here ? PeerVerdict::unknowable : PeerVerdict::elsewhere;
  }
  if (!*facts.owner) {
    return facts.is_here ? PeerVerdict::closed : PeerVerdict::elsewhere;
  }
  const auto owner = (*facts.owner)->uid;
  if (!owner && !facts.can_tell_users) {
    return PeerVerdict::unknowable;
  }
  return owner && (*owner == user || *owner == kRoot) ? PeerVerdict::admitted
                                                      : PeerVerdict::stranger;
}

Result<uid_t> parse_user(std::string_view text, std::string_view passwd) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (is_number) {
    const auto number = parse_int(text);
    return number && *number < kNoUser
               ? Result<uid_t>(static_cast<uid_t>(*number))
               : failure(Errc::usage, "invalid user ID " + std::string(text));
  }
  for (const std::string& line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    const auto number =
        fields.size() > 2 && fields[0] == text ? parse_int(fields[2]) : std::nullopt;
    if (number && *number >= 0 && *number < kNoUser) {
      return static_cast<uid_t>(*number);
    }
  }
  return failure(Errc::usage,
                 "no user " + shell_quoted(text) + " in /etc/passwd. Specify the user ID (id -u " +
                     shell_quoted(text) + ")");
}

PeerFacts UserAdmission::facts_of(const PeerAddress& peer) {
  const auto there = SocketAddress::parse(peer.host, peer.port);
  const auto here = SocketAddress::parse(peer.local_host, peer.local_port);
  if (!there || !here) {  // the connection no longer has an address
    return {.owner = std::nullopt, .is_here = true};
  }
  PeerFacts facts{.owner = diag_.owner_of(*there, *here)};
  if (!facts.owner || !*facts.owner) {
    facts.is_here = is_own_address(peer.host);
  } else if (!(*facts.owner)->uid) {
    const auto ours = diag_.owner_of(*here, *there);
    facts.can_tell_users = ours && *ours && (*ours)->uid;
  }
  return facts;
}

Result<void> UserAdmission::judge_stranger(const SocketOwner& owner) {
  if (others_ == OtherUsers::admitted || (exception_ && exception_(owner))) {
    return {};
  }
  const std::string whose =
      owner.uid ? name_of(*owner.uid) : "a user without an ID in our user namespace";
  if (others_ == OtherUsers::warned_of) {
    if (notice_ && !std::exchange(told_of_others_, true)) {
      notice_("admitted a connection from " + whose +
              " on this host because this job has no token: other users on this host can join");
    }
    return {};
  }
  return failure(Errc::not_possible,
                 "it belongs to " + whose + ", but only " + name_of(user_) +
                     (user_ == kRoot ? "" : " and root") + " may connect on this host; run it as " +
                     name_of(user_) + advice_);
}

void UserAdmission::admit_unknowable(const PeerFacts& facts) {
  if (notice_ && !std::exchange(told_, true)) {
    notice_("cannot reject other users on this host: " +
            (facts.owner ? "our own user has no ID in this user namespace"
                         : facts.owner.error().message));
  }
}

void UserAdmission::admit(const PeerAddress& peer, AdmissionAnswer answer) {
  ++asked_;
  const PeerFacts facts = facts_of(peer);
  switch (judge_peer(facts, user_)) {
    case PeerVerdict::unknowable:
      admit_unknowable(facts);
      answer({});
      return;
    case PeerVerdict::admitted:
      answer({});
      return;
    case PeerVerdict::elsewhere:
      elsewhere_->admit(peer, std::move(answer));
      return;
    case PeerVerdict::stranger:
      answer(judge_stranger(**facts.owner));
      return;
    case PeerVerdict::unanswered:
      answer(std::unexpected(facts.owner.error()));
      return;
    case PeerVerdict::closed:
      answer(failure(Errc::closed, "it was closed before its owner could be determined"));
      return;
  }
}

}  // namespace muster
