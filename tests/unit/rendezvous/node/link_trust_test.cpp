// SPDX-License-Identifier: Apache-2.0
#include "link_party.hpp"
#include "rendezvous/node/introductions.hpp"
#include "support/catch.hpp"
#include "trust/secure_channel.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

const JobTrust& trust() {
  static const JobTrust kTrust("0123456789abcdef", "job");
  return kTrust;
}

const JobTrust& another_trust() {
  static const JobTrust kTrust("fedcba9876543210", "job");
  return kTrust;
}

// A party in the job "job".
struct Member {
  explicit Member(const JobTrust* with, const LinkLimits& limits = {}) : party(limits) {
    party.sockets->set_job("job", with);
    party.sockets->set_notice([this](const std::string& text) { notices.push_back(text); });
  }

  Party party;
  std::vector<std::string> notices;
};

const std::string kIntroduction = round_introduction({.proofs = Proofs::token, .job = "job"});

std::string read_until_closed(Member& member, const UniqueFd& client) {
  std::string all;
  bool closed = false;
  REQUIRE(until({&member.party}, [&] {
    all += read_some(client, closed);
    return closed;
  }));
  return all;
}

}  // namespace

TEST_CASE("trusted links: messages of any length arrive, and none can be read on the way") {
  Member left(&trust());
  Member right(&trust());
  left.party.connect(1, right.party.port);
  REQUIRE(
      until({&left.party, &right.party}, [&] { return !left.party.all<LinkOpened>().empty(); }));
  left.party.say(1, followers_samples().front());
  REQUIRE(until({&left.party, &right.party},
                [&] { return right.party.all<MessageReceived>().size() == 1; }));
  const LinkId back = right.party.all<LinkAccepted>()[0].link;
  right.party.say(back, Welcome{});
  auto round = std::make_shared<Round>(*sample_round(3, 3));
  round->members.resize(20000, sample_node(0));
  right.party.say(back, Propose{.round = round, .base = sample_round(0, 0)});
  REQUIRE(until({&left.party, &right.party},
                [&] { return left.party.all<MessageReceived>().size() == 2; }));
  const auto heard = left.party.all<MessageReceived>();
  CHECK(std::get<Propose>(*heard[1].message).round->members.size() == 20000);
  CHECK(left.notices.empty());
  CHECK(right.notices.empty());
}

TEST_CASE("trusted links: both sides refuse another token, and log it once") {
  Member right(&trust());
  for (int i = 0; i < 3; ++i) {
    Member wrong(&another_trust());
    wrong.party.connect(1, right.party.port);
    REQUIRE(until({&wrong.party, &right.party},
                  [&] { return !wrong.party.all<MessageReceived>().empty(); }));
    const auto heard = wrong.party.all<MessageReceived>();
    CHECK(std::get<Refuse>(*heard[0].message) == other_token());
  }
  REQUIRE(until({&right.party}, [&] { return right.party.sockets->drained(); }));
  const auto refused = right.party.all<TokenRefused>();
  REQUIRE(refused.size() == 3);
  CHECK(right.party.events.size() == 3);
  CHECK(refused[0].from == "127.0.0.1");
  CHECK(refused[0].text == other_token().text);
  REQUIRE(right.notices.size() == 1);
  CHECK_THAT(
      right.notices[0],
      Catch::StartsWith("refused node at 127.0.0.1: the tokens differ: is ~/.config shared?"));
}

TEST_CASE("trusted links: a node with a token and one without refuse each other, with the reason") {
  for (const bool first_has : {true, false}) {
    Member first(first_has ? &trust() : nullptr);
    Member second(first_has ? nullptr : &trust());
    second.party.connect(1, first.party.port);
    REQUIRE(until({&first.party, &second.party},
                  [&] { return !second.party.all<MessageReceived>().empty(); }));
    const auto heard = second.party.all<MessageReceived>();
    const auto& refuse = std::get<Refuse>(*heard[0].message);
    CHECK(refuse.why == Refusal::wrong_token);
    CHECK_THAT(refuse.text,
               Catch::StartsWith(first_has ? "this job needs a token" : "this job runs"));
    REQUIRE(first.party.all<TokenRefused>().size() == 1);
    CHECK(first.party.events.size() == 1);
    REQUIRE(first.notices.size() == 1);
    CHECK_THAT(first.notices[0], Catch::EndsWith(refuse.text));
  }
}

TEST_CASE("trusted links: another job gets the reason in the clear, and nothing about ours") {
  Member right(&trust());
  const UniqueFd client = plain(right.party);
  write(client, round_introduction({.proofs = Proofs::token, .job = "theirs"}) + "and TLS");
  const std::string answer = read_until_closed(right, client);
  CHECK_THAT(answer, Catch::Contains("a different job than 'theirs'"));
  CHECK(answer.starts_with(round_reply(RoundReply::refused)));
}

TEST_CASE("trusted links: never reads frames in the clear") {
  Member right(&trust());
  for (const bool sealed : {true, false}) {
    const UniqueFd client = plain(right.party);
    std::string bytes =
        round_introduction({.proofs = sealed ? Proofs::token : Proofs::none, .job = "job"});
    REQUIRE(append_frame(bytes, followers_samples().front()));
    write(client, bytes);
    static_cast<void>(read_until_closed(right, client));
  }
  // The second one announced that it has no token.
  CHECK(right.party.all<TokenRefused>().size() == 1);
  CHECK(right.party.events.size() == 1);
}

TEST_CASE("trusted links: a partial first message occupies no handshake slot, and is closed") {
  LinkLimits limits;
  limits.handshakes = 1;
  limits.hello = 100ms;
  Member right(&trust(), limits);
  SecureChannel channel(trust(), SecureChannel::Side::client);
  const std::string hello = channel.take_output();
  const UniqueFd half = plain(right.party);
  write(half, kIntroduction + hello.substr(0, hello.size() / 2));
  const UniqueFd whole = plain(right.party);
  write(whole, kIntroduction + hello);
  std::string answer;
  bool closed = false;
  REQUIRE(until({&right.party}, [&] {
    answer += read_some(whole, closed);
    return answer.size() > kPreambleBytes + kReplyBytes;
  }));
  REQUIRE(until({&right.party}, [&] { return is_closed(half); }));
  // A record that claims to be complete, but contains only a part.
  std::string cut = hello.substr(0, 60);
  cut[3] = 0;
  cut[4] = 55;
  const UniqueFd liar = plain(right.party);
  write(liar, kIntroduction + cut);
  static_cast<void>(read_until_closed(right, liar));
  CHECK(right.party.events.empty());
}

TEST_CASE("trusted links: handshakes beyond the limit wait for their turn") {
  LinkLimits limits;
  limits.handshakes = 1;
  limits.handshake = 200ms;
  Member right(&trust(), limits);
  SecureChannel recorded(trust(), SecureChannel::Side::client);
  // A replay of what an honest node sent, which cannot continue the handshake.
  const UniqueFd replay = plain(right.party);
  write(replay, kIntroduction + recorded.take_output());
  std::string answer;
  bool closed = false;
  REQUIRE(until({&right.party}, [&] {
    answer += read_some(replay, closed);
    return answer.size() > kPreambleBytes + kReplyBytes;
  }));
  std::vector<std::unique_ptr<Member>> members;
  std::vector<Party*> parties{&right.party};
  for (LinkId id = 1; id <= 5; ++id) {
    members.push_back(std::make_unique<Member>(&trust()));
    members.back()->party.connect(1, right.party.port);
    members.back()->party.turn();
  }
  const auto turn_all = [&] {
    for (const auto& member : members) {
      member->party.turn();
      if (member->party.all<LinkOpened>().size() == 1 && member->party.on_event == nullptr) {
        member->party.say(1, followers_samples().front());
        member->party.on_event = [](const NodeEvent&) {};
      }
    }
    return right.party.all<MessageReceived>().size() == members.size();
  };
  REQUIRE(until({&right.party}, turn_all));
  CHECK(is_closed(replay));
}

TEST_CASE("trusted links: closes a peer that sends more than one record before the reply") {
  LinkLimits limits;
  limits.handshakes = 1;
  Member right(&trust(), limits);
  SecureChannel recorded(trust(), SecureChannel::Side::client);
  const std::string hello = kIntroduction + recorded.take_output();
  const UniqueFd holder = plain(right.party);
  write(holder, hello);
  std::string answer;
  bool closed = false;
  REQUIRE(until({&right.party}, [&] {
    answer += read_some(holder, closed);
    return answer.size() > kPreambleBytes + kReplyBytes;
  }));
  // All of it would be buffered while it waits.
  const UniqueFd talker = plain(right.party);
  write(talker, hello + std::string(kMaxRecordBytes, 'x'));
  static_cast<void>(read_until_closed(right, talker));
  CHECK_FALSE(is_closed(holder));
  CHECK(right.party.events.empty());
}

TEST_CASE("trusted links: after a success it believes no refusal in the clear") {
  Member left(&trust());
  {
    Member right(&trust());
    left.party.connect(1, right.party.port);
    REQUIRE(
        until({&left.party, &right.party}, [&] { return !left.party.all<LinkOpened>().empty(); }));
    left.party.say(1, followers_samples().front());
    REQUIRE(until({&left.party, &right.party},
                  [&] { return right.party.all<MessageReceived>().size() == 1; }));
  }
  REQUIRE(until({&left.party}, [&] { return !left.party.all<LinkClosed>().empty(); }));
  // A stranger listens where one of our nodes was.
  for (const std::string& lie :
       {refuse_introduction({Refusal::closed, "the job has ended"}),
        refuse_version(99),
        round_reply(RoundReply::plain),
        round_reply(RoundReply::sealed) + std::string("\x15\x03\x03\x00\x02\x02\x33", 7),
        round_reply(RoundReply::sealed) + "not TLS"}) {
    const auto listener = listen_on("127.0.0.1", 0);
    left.party.events.clear();
    left.party.connect(3, port_of(listener->get()));
    REQUIRE(until({&left.party}, [&] { return !left.party.all<LinkOpened>().empty(); }));
    const UniqueFd accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    write(accepted, lie);
    REQUIRE(until({&left.party}, [&] { return !left.party.all<LinkClosed>().empty(); }));
    CHECK(left.party.all<LinkClosed>()[0].how == LinkEnd::broken);
    CHECK(left.party.all<MessageReceived>().empty());
  }
}
