// SPDX-License-Identifier: Apache-2.0
// UserAdmission: admits peers on this host only if they belong to one user or to root. Passes peers
// on other hosts to another Admission. The decision is a pure function of facts from the kernel.
// Used for the workers' store, the listeners of nodes and muster-store. Resource; one thread.
#pragma once

#include "io/admission.hpp"
#include "io/socket_owner.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

namespace muster {

// The facts that decide whether to admit a peer.
struct PeerFacts {
  Result<std::optional<SocketOwner>> owner;
  bool is_here = false;        // the peer's address belongs to this host
  bool can_tell_users = true;  // our own user has an ID in this user namespace
};

enum class PeerVerdict {
  admitted,
  unknowable,  // on this host, but the kernel cannot determine socket owners
  unanswered,  // the query failed, for example for lack of resources
  elsewhere,   // on another host
  stranger,    // the connection belongs to another user
  closed,      // the peer closed the connection before the query
};

// How to treat another user's connections on this host. A program that forwards connections from
// other hosts, such as a sidecar, connects as its own user.
enum class OtherUsers {
  refused,
  warned_of,  // admitted; the first such connection triggers a notice
  admitted,   // without a notice; a key check follows
};

[[nodiscard]] PeerVerdict judge_peer(const PeerFacts& facts, uid_t user);

// Parses a user ID, or looks up a name in the text of /etc/passwd. Error: usage.
[[nodiscard]] Result<uid_t> parse_user(std::string_view text, std::string_view passwd);

class UserAdmission final : public Admission {
 public:
  // True if a socket that belongs to another user is admitted anyway. The socket's inode identifies
  // it.
  using Exception = std::function<bool(const SocketOwner&)>;

  explicit UserAdmission(uid_t user) : user_(user) {}

  // Sets the Admission for peers on other hosts, which must outlive this object. If none is set,
  // such peers are admitted.
  void set_elsewhere(Admission* elsewhere) { elsewhere_ = elsewhere; }

  void set_exception(Exception exception) { exception_ = std::move(exception); }

  // Sets the receiver of two one-time notices: that another user's connection was admitted
  // (warned_of), and that socket owners cannot be determined. In the second case all peers on this
  // host are admitted.
  void set_notice(std::function<void(const std::string&)> notice) { notice_ = std::move(notice); }

  void set_others(OtherUsers others) { others_ = others; }

  // Sets text to append to the reason for a refusal: what to do if the other user forwards
  // connections.
  void set_advice(std::string advice) { advice_ = std::move(advice); }

  void admit(const PeerAddress& peer, AdmissionAnswer answer) override;

  // The number of admission requests.
  [[nodiscard]] std::uint64_t asked() const { return asked_; }

 private:
  [[nodiscard]] PeerFacts facts_of(const PeerAddress& peer);
  [[nodiscard]] Result<void> judge_stranger(const SocketOwner& owner);
  void admit_unknowable(const PeerFacts& facts);

  uid_t user_;
  SocketDiag diag_;
  AdmitEverybody everybody_;
  Admission* elsewhere_ = &everybody_;
  Exception exception_;
  std::function<void(const std::string&)> notice_;
  OtherUsers others_ = OtherUsers::refused;
  std::string advice_;
  bool told_ = false;
  bool told_of_others_ = false;
  std::uint64_t asked_ = 0;
};

}  // namespace muster
