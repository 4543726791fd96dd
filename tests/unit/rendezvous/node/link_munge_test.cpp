// SPDX-License-Identifier: Apache-2.0
// Links whose key is sent in MUNGE credentials.
#include "link_party.hpp"
#include "rendezvous/node/credential_keys.hpp"
#include "rendezvous/node/introductions.hpp"
#include "support/catch.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// MUNGE: only services with the same key can decode a credential. Answers when told to.
class FakeMunge final : public CredentialService {
 public:
  explicit FakeMunge(std::string key) : key_(std::move(key)) {}

  void seal(const std::string& secret, Done done) override {
    ++seals;
    later_.push_back([this, secret, done] {
      done(works ? Result<std::string>(key_ + secret) : failure(Errc::not_possible, "MUNGE: gone"));
    });
  }

  void open(const std::string& credential, Done done) override {
    ++opens;
    later_.push_back([this, credential, done] {
      done(credential.starts_with(key_) ? Result<std::string>(credential.substr(key_.size()))
                                        : failure(Errc::not_possible, "MUNGE: invalid"));
    });
  }

  void answer() {
    for (const auto& one : std::exchange(later_, {})) {
      one();
    }
  }

  bool works = true;
  int seals = 0;
  int opens = 0;

 private:
  std::string key_;
  std::vector<std::function<void()>> later_;
};

const JobTrust& a_token() {
  static const JobTrust kTrust("0123456789abcdef", "job");
  return kTrust;
}

const JobTrust& another_token() {
  static const JobTrust kTrust("fedcba9876543210", "job");
  return kTrust;
}

// A node of the job "job" with MUNGE and possibly a token.
struct Node {
  explicit Node(const JobTrust* token = nullptr, std::string key = "1")
      : munge(std::move(key)), keys(munge, "job", [](const auto& work) { work(); }) {
    party.sockets->set_job("job", token, &keys);
    party.sockets->set_notice([this](const std::string& text) { notices.push_back(text); });
  }

  FakeMunge munge;
  CredentialKeys keys;
  Party party;
  std::vector<std::string> notices;
};

bool until(Node& left, Node& right, const std::function<bool()>& condition) {
  return testing::until({&left.party, &right.party}, [&] {
    left.munge.answer();
    right.munge.answer();
    return condition();
  });
}

bool meet(Node& left, Node& right, LinkId link) {
  left.party.connect(link, right.party.port);
  const std::size_t before = right.party.all<MessageReceived>().size();
  const std::size_t opened = left.party.all<LinkOpened>().size();
  if (!until(left, right, [&] { return left.party.all<LinkOpened>().size() > opened; })) {
    return false;
  }
  left.party.say(link, followers_samples().front());
  return until(
      left, right, [&] { return right.party.all<MessageReceived>().size() == before + 1; });
}

std::string refusal_heard_by(const Node& node) {
  const auto heard = node.party.all<MessageReceived>();
  REQUIRE(heard.size() == 1);
  return std::get<Refuse>(*heard[0].message).text;
}

}  // namespace

TEST_CASE("links by MUNGE: nodes without another common secret connect, each with its own key") {
  Node left;
  Node right;
  REQUIRE(meet(left, right, 1));
  REQUIRE(meet(right, left, 1));
  right.party.say(right.party.all<LinkAccepted>()[0].link, Welcome{});
  REQUIRE(until(left, right, [&] { return left.party.all<MessageReceived>().size() == 2; }));
  CHECK(left.notices.empty());
  CHECK(right.notices.empty());
}

TEST_CASE("links by MUNGE: many connections need one credential, which is decoded once") {
  Node left;
  Node right;
  for (const LinkId link : {1U, 3U, 5U, 7U}) {
    REQUIRE(meet(left, right, link));
  }
  CHECK(right.munge.seals == 1);
  CHECK(left.munge.opens == 1);
  CHECK(left.munge.seals == 0);
}

TEST_CASE("links by MUNGE: concurrent connections wait for the same credential") {
  Node left;
  Node right;
  for (const LinkId link : {1U, 3U, 5U}) {
    left.party.connect(link, right.party.port);
  }
  REQUIRE(testing::until({&left.party, &right.party},
                         [&] { return left.party.all<LinkOpened>().size() == 3; }));
  for (const LinkId link : {1U, 3U, 5U}) {
    left.party.say(link, followers_samples().front());
  }
  REQUIRE(until(left, right, [&] { return right.party.all<MessageReceived>().size() == 3; }));
  CHECK(right.munge.seals == 1);
  CHECK(left.munge.opens == 1);
}

TEST_CASE("links by MUNGE: with different munge.keys both sides report it") {
  Node left(nullptr, "2");
  Node right;
  left.party.connect(1, right.party.port);
  REQUIRE(until(left, right, [&] { return !left.party.all<LinkClosed>().empty(); }));
  CHECK_THAT(refusal_heard_by(left),
             Catch::StartsWith("MUNGE: invalid; do all nodes have the same munge.key"));
  REQUIRE(until(left, right, [&] { return !right.notices.empty(); }));
  CHECK_THAT(right.notices[0], Catch::Contains("could not use our MUNGE credential"));
  REQUIRE(until(left, right, [&] { return !right.party.all<TokenRefused>().empty(); }));
  CHECK(right.party.all<TokenRefused>()[0].from == "127.0.0.1");
  CHECK(right.party.events.size() == 1);
}

TEST_CASE("links by MUNGE: if MUNGE does not work between two nodes, a common token does") {
  Node left(&a_token(), "2");
  Node right(&a_token());
  left.party.connect(1, right.party.port);
  REQUIRE(until(left, right, [&] { return !left.party.all<LinkClosed>().empty(); }));
  CHECK(left.party.all<LinkClosed>()[0].how == LinkEnd::broken);
  CHECK(left.party.all<MessageReceived>().empty());
  REQUIRE(meet(left, right, 3));
  REQUIRE(meet(left, right, 5));
  CHECK(left.munge.opens == 1);
  CHECK(right.notices.empty());
}

TEST_CASE("links by MUNGE: if neither MUNGE nor the token matches, the refusal names both") {
  Node left(&another_token(), "2");
  Node right(&a_token());
  left.party.connect(1, right.party.port);
  REQUIRE(until(left, right, [&] { return !left.party.all<LinkClosed>().empty(); }));
  left.party.connect(3, right.party.port);
  REQUIRE(until(left, right, [&] { return left.party.all<LinkClosed>().size() == 2; }));
  CHECK_THAT(refusal_heard_by(left),
             Catch::StartsWith("MUNGE: invalid; the tokens differ: is ~/.config shared?"));
  CHECK_FALSE(right.notices.empty());
}

TEST_CASE("links by MUNGE: a node with MUNGE and one without connect with their token") {
  for (const bool first : {true, false}) {
    Node with(&a_token());
    Party without;
    without.sockets->set_job("job", &a_token());
    Party& left = first ? with.party : without;
    Party& right = first ? without : with.party;
    left.connect(1, right.port);
    REQUIRE(testing::until({&left, &right}, [&] { return !left.all<LinkOpened>().empty(); }));
    left.say(1, followers_samples().front());
    REQUIRE(testing::until({&left, &right}, [&] { return !right.all<MessageReceived>().empty(); }));
    CHECK(with.munge.seals == 0);
  }
}

TEST_CASE("links by MUNGE: after munged has died it uses the token, or refuses with the reason") {
  Node left(&a_token());
  Node right(&a_token());
  right.munge.works = false;
  left.party.connect(1, right.party.port);
  REQUIRE(until(left, right, [&] { return !left.party.all<LinkOpened>().empty(); }));
  left.party.say(1, followers_samples().front());
  REQUIRE(until(left, right, [&] { return !right.party.all<MessageReceived>().empty(); }));
  Node lonely;
  lonely.munge.works = false;
  Node comes;
  comes.party.connect(1, lonely.party.port);
  REQUIRE(until(comes, lonely, [&] { return !comes.party.all<MessageReceived>().empty(); }));
  CHECK_THAT(refusal_heard_by(comes), Catch::StartsWith("this node cannot use MUNGE: gone"));
}

TEST_CASE("links by MUNGE: never believes a stranger's alternatives") {
  Node node(&a_token());
  CredentialKeys::Key somebodys = std::make_shared<const JobTrust>(std::string(64, 'a'), "job");
  SecureChannel channel(*somebodys, SecureChannel::Side::client);
  const std::string hello = channel.take_output();
  const std::string asks = round_introduction({.proofs = Proofs::munge, .job = "job"});
  for (const std::string& said : {asks + hello, asks + hello_bytes()}) {
    const UniqueFd client = plain(node.party);
    write(client, said);
    REQUIRE(testing::until({&node.party}, [&] { return is_closed(client); }));
  }
  // A peer that waits for the credential still has the wrong key.
  const UniqueFd client = plain(node.party);
  write(client, asks);
  std::string answer;
  bool closed = false;
  REQUIRE(testing::until({&node.party}, [&] {
    node.munge.answer();
    answer += read_some(client, closed);
    return !answer.empty();
  }));
  CHECK(answer.starts_with(round_reply(RoundReply::credential)));
  write(client, hello);
  REQUIRE(testing::until({&node.party}, [&] { return is_closed(client); }));
  CHECK(node.party.all<TokenRefused>().size() == node.party.events.size());
}

TEST_CASE("links by MUNGE: a node that requires it accepts nothing in the clear") {
  Node node;
  for (const std::string& lie : {round_reply(RoundReply::plain),
                                 round_reply(RoundReply::sealed),
                                 round_credential("9 of somebody else") + "and more"}) {
    const auto listener = listen_on("127.0.0.1", 0);
    node.party.events.clear();
    node.party.connect(3, port_of(listener->get()));
    REQUIRE(testing::until({&node.party}, [&] { return !node.party.all<LinkOpened>().empty(); }));
    const UniqueFd accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    write(accepted, lie);
    REQUIRE(testing::until({&node.party}, [&] { return !node.party.all<LinkClosed>().empty(); }));
    CHECK(node.party.all<LinkClosed>()[0].how == LinkEnd::broken);
    CHECK(node.party.all<MessageReceived>().empty());
  }
}

TEST_CASE("links by MUNGE: a credential with a weak key is invalid") {
  Node node;
  std::string fault;
  node.keys.learn("1abc", [&](const Result<CredentialKeys::Key>& key) {
    fault = key ? "" : key.error().message;
  });
  node.munge.answer();
  CHECK(fault == "the credential contains no key");
}

TEST_CASE("links by MUNGE: ignores an answer that arrives after the end") {
  FakeMunge munge("1");
  int heard = 0;
  {
    CredentialKeys keys(munge, "job", [](const auto& work) { work(); });
    keys.tell(TimePoint{}, [&](const auto&) { ++heard; });
    keys.learn("1", [&](const auto&) { ++heard; });
  }
  munge.answer();
  CHECK(heard == 0);
}

TEST_CASE("links by MUNGE: creates a new credential after a minute") {
  FakeMunge munge("1");
  CredentialKeys keys(munge, "job", [](const auto& work) { work(); });
  std::vector<std::string> told;
  const auto ask = [&](Duration when) {
    keys.tell(TimePoint{} + when, [&](const Result<std::string>& one) { told.push_back(*one); });
    munge.answer();
  };
  ask(0s);
  ask(59s);
  CHECK(munge.seals == 1);
  ask(60s);
  CHECK(munge.seals == 2);
  CHECK(told.size() == 3);
}

TEST_CASE("links by MUNGE: does not query a failing service again at once, whatever the request") {
  FakeMunge munge("1");
  CredentialKeys keys(munge, "job", [](const auto& work) { work(); });
  int told = 0;
  const auto ask = [&](Duration when) {
    keys.tell(TimePoint{} + when, [&](const Result<std::string>& one) { told += one ? 1 : 100; });
    munge.answer();
  };
  munge.works = false;
  ask(0s);
  munge.works = true;
  ask(999ms);
  CHECK(munge.seals == 1);
  CHECK(told == 200);
  ask(1s);
  CHECK(munge.seals == 2);
  CHECK(told == 201);
}
