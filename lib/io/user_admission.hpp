// SPDX-License-Identifier: Apache-2.0
// UserAdmission: whoever connects from this machine must be one user, or root; whoever comes from
// another machine is asked about elsewhere. The decision is a pure function of what the kernel
// says. For the workers' store, the listeners of nodes and muster-store. Resource; one thread.
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

// What is known of a peer.
struct PeerFacts {
  Result<std::optional<SocketOwner>> owner;
  bool is_here = false;        // its address is one of this machine
  bool can_tell_users = true;  // our own end has an owner with a number
};

enum class PeerVerdict {
  admitted,
  unknowable,  // it is on this machine, and this kernel never says whose a socket is
  unanswered,  // the kernel did not say it now: it is short of something
  elsewhere,   // on another machine
  stranger,    // another user's
  closed,      // it was closed before the question
};

// What becomes of another user's connection from this machine. A program that forwards connections
// of other machines, such as a side car, makes them under its own user.
enum class OtherUsers {
  refused,
  warned_of,  // admitted; one notice names the first of them
  admitted,   // a key decides later
};

[[nodiscard]] PeerVerdict judge_peer(const PeerFacts& facts, uid_t user);

// The number of a user, from a number or from a name in the text of /etc/passwd. Error: usage.
[[nodiscard]] Result<uid_t> parse_user(std::string_view text, std::string_view passwd);

class UserAdmission final : public Admission {
 public:
  // Whether another user's socket is admitted all the same, by its inode.
  using Exception = std::function<bool(const SocketOwner&)>;

  explicit UserAdmission(uid_t user) : user_(user) {}

  // Asked about peers of other machines; it must outlive this. Without it they are admitted.
  void set_elsewhere(Admission* elsewhere) { elsewhere_ = elsewhere; }

  void set_exception(Exception exception) { exception_ = std::move(exception); }

  // Given one sentence, once, if this kernel cannot say whose a socket is: all are admitted then.
  void set_notice(std::function<void(const std::string&)> notice) { notice_ = std::move(notice); }

  void set_others(OtherUsers others) { others_ = others; }

  // Added to the reason of a refusal: what to do where the other user forwards connections.
  void set_advice(std::string advice) { advice_ = std::move(advice); }

  void admit(const PeerAddress& peer, AdmissionAnswer answer) override;

  // How often it was asked about a peer.
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
