// SPDX-License-Identifier: Apache-2.0
// Which users may connect: the pure decision, and real sockets on this machine.
#include "io/user_admission.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace muster;

namespace {

using Owner = std::optional<SocketOwner>;

constexpr uid_t kUser = 1000;
const SocketOwner kOurs{kUser, 17};

PeerVerdict verdict(const Result<Owner>& owner, bool is_here = true, bool can_tell = true) {
  return judge_peer({owner, is_here, can_tell}, kUser);
}

// A connection over loopback, and what a listener would query about it.
struct Connection {
  Connection()
      : listener(::socket(AF_INET, SOCK_STREAM, 0)), client(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto any = SocketAddress::parse("127.0.0.1", 0);
    REQUIRE(::bind(listener.get(), any->get(), any->size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    const auto at = local_address(listener.get());
    REQUIRE(::connect(client.get(), at.get(), at.size) == 0);
    const auto from = local_address(client.get());
    peer = {from.host(), from.port(), at.host(), at.port()};
  }

  UniqueFd listener;
  UniqueFd client;
  PeerAddress peer;
};

// Sockets belong to the user that creates them. Root is admitted everywhere, so root creates them
// as an unprivileged user.
struct UsersConnection {
  UsersConnection() {
    if (::geteuid() == 0) {
      REQUIRE(::seteuid(kNobody) == 0);
    }
    user = ::geteuid();
    connection.emplace();
    REQUIRE(::seteuid(::getuid()) == 0);
  }

  static constexpr uid_t kNobody = 65534;
  uid_t user = 0;
  std::optional<Connection> connection;
};

struct Answers {
  AdmissionAnswer taker() {
    return [this](Result<void> said) { all.push_back(std::move(said)); };
  }

  std::vector<Result<void>> all;
};

class RefuseAll final : public Admission {
 public:
  void admit(const PeerAddress& peer, AdmissionAnswer answer) override {
    asked.push_back(peer);
    answer(failure(Errc::not_possible, "not by me"));
  }

  std::vector<PeerAddress> asked;
};

}  // namespace

TEST_CASE("user admission: admits the user and root, at any address") {
  CHECK(verdict(kOurs) == PeerVerdict::admitted);
  CHECK(verdict(kOurs, false) == PeerVerdict::admitted);
  CHECK(verdict(SocketOwner{0, 17}) == PeerVerdict::admitted);
  CHECK(verdict(SocketOwner{1001, 17}) == PeerVerdict::stranger);
  CHECK(verdict(SocketOwner{1001, 17}, false) == PeerVerdict::stranger);
}

TEST_CASE("user admission: a connection without an owner is from another machine, or was closed") {
  CHECK(verdict(Owner()) == PeerVerdict::closed);
  CHECK(verdict(Owner(), false) == PeerVerdict::elsewhere);
}

TEST_CASE("user admission: the owner is unknowable if the kernel cannot report owners") {
  const Result<Owner> error = failure(Errc::not_possible, "no such question");
  CHECK(verdict(error) == PeerVerdict::unknowable);
  CHECK(verdict(error, false) == PeerVerdict::elsewhere);
  CHECK(verdict(SocketOwner{std::nullopt, 17}, true, false) == PeerVerdict::unknowable);
  CHECK(verdict(SocketOwner{std::nullopt, 17}, true, true) == PeerVerdict::stranger);
}

TEST_CASE("user admission: rejects a client whose owner cannot be determined right now") {
  const Result<Owner> error = failure(Errc::exhausted, "too many open files");
  CHECK(verdict(error) == PeerVerdict::unanswered);
  CHECK(verdict(error, false) == PeerVerdict::unanswered);
  const Connection connection;
  const auto own = *SocketAddress::parse(connection.peer.host, connection.peer.port);
  const auto other = *SocketAddress::parse(connection.peer.local_host, connection.peer.local_port);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto owner = SocketDiag().owner_of(own, other);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(owner);
  CHECK(owner.error().code == Errc::exhausted);
  CHECK(verdict(owner) == PeerVerdict::unanswered);
}

TEST_CASE("user admission: admits our own connection, but not another user's") {
  const Connection connection;
  Answers answers;
  UserAdmission ours(::geteuid());
  ours.admit(connection.peer, answers.taker());
  REQUIRE(answers.all.size() == 1);
  CHECK(answers.all[0]);
  const UsersConnection other;
  UserAdmission theirs(other.user + 1);
  theirs.admit(other.connection->peer, answers.taker());
  REQUIRE_FALSE(answers.all[1]);
  CHECK(answers.all[1].error().message.starts_with(
      "it belongs to user " + std::to_string(other.user) + ", but only user "));
}

TEST_CASE("user admission: admits another user if a key decides, or with a warning") {
  const UsersConnection other;
  for (const auto& [others, warnings] :
       {std::pair(OtherUsers::admitted, 0U), std::pair(OtherUsers::warned_of, 1U)}) {
    Answers answers;
    std::vector<std::string> notices;
    UserAdmission admission(other.user + 1);
    admission.set_notice([&](const std::string& text) { notices.push_back(text); });
    admission.set_others(others);
    admission.admit(other.connection->peer, answers.taker());
    admission.admit(other.connection->peer, answers.taker());
    REQUIRE(answers.all.size() == 2);
    CHECK(answers.all[0]);
    CHECK(answers.all[1]);
    CHECK(notices.size() == warnings);
  }
}

TEST_CASE("user admission: rejects a client that has already closed, whatever it sent") {
  Connection connection;
  connection.client.reset();
  connection.listener.reset();
  Answers answers;
  UserAdmission ours(::geteuid());
  ours.admit(connection.peer, answers.taker());
  REQUIRE(answers.all.size() == 1);
  REQUIRE_FALSE(answers.all[0]);
  CHECK(answers.all[0].error().code == Errc::closed);
}

TEST_CASE("user admission: passes peers on other machines to the admission for other machines") {
  const PeerAddress far{"192.0.2.7", 40000, "192.0.2.8", 29500};
  Answers answers;
  UserAdmission admission(::geteuid());
  admission.admit(far, answers.taker());
  REQUIRE(answers.all.size() == 1);
  CHECK(answers.all[0]);
  RefuseAll elsewhere;
  admission.set_elsewhere(&elsewhere);
  admission.admit(far, answers.taker());
  CHECK(elsewhere.asked == std::vector{far});
  CHECK_FALSE(answers.all[1]);
}

TEST_CASE("user admission: names a user by number or by name") {
  const std::string passwd = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:\nbad:x:y:0\n17:x:3:3\n";
  CHECK(parse_user("ann", passwd) == Result<uid_t>(1000));
  CHECK(parse_user("17", passwd) == Result<uid_t>(17));
  for (const char* text : {"", "bob", "bad", "-1", "4294967295", "99999999999999999999", "an"}) {
    INFO(text);
    REQUIRE_FALSE(parse_user(text, passwd));
    CHECK(parse_user(text, passwd).error().code == Errc::usage);
  }
}
