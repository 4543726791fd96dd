// SPDX-License-Identifier: Apache-2.0
// Links between nodes that may have no shared secret. All nodes are on 127.0.0.1, which FirstUse
// treats as another machine here.
#include "link_party.hpp"
#include "rendezvous/node/first_use.hpp"
#include "support/catch.hpp"
#include "trust/secure_channel.hpp"

#include <optional>
#include <string>
#include <vector>

using namespace muster;
using namespace muster::testing;

namespace {

bool never(const std::string& /*address*/) {
  return false;
}

// A party in the job "job" with its own token.
struct Node {
  explicit Node(const std::string& secret, bool trusts_first = true) : token(secret, "job") {
    if (trusts_first) {
      first_use.emplace("job", FirstUse::Admits::other_hosts, never);
    }
    party.sockets->set_job("job", &token, nullptr, first_use ? &*first_use : nullptr);
    party.sockets->set_notice([this](const std::string& text) { notices.push_back(text); });
  }

  // Gives both nodes the same job key, as Welcome does.
  void shares_key_of(Node& other) { party.sockets->use_job_key(other.first_use->share()); }

  Party party;
  JobTrust token;
  std::optional<FirstUse> first_use;
  std::vector<std::string> notices;
};

Round round_at(const std::string& address) {
  Round round;
  round.members.emplace_back().address = address;
  return round;
}

const std::string kOne = "0123456789abcdef";
const std::string kTwo = "fedcba9876543210";

// Reconnects after each failure, like a node. True once its first message has arrived.
bool meets(Node& from, Node& to) {
  static LinkId id = 1;
  for (int tries = 0; tries < 4; ++tries) {
    from.party.events.clear();
    to.party.events.clear();
    id += 2;
    from.party.connect(id, to.party.port);
    REQUIRE(until({&from.party, &to.party}, [&] {
      if (from.party.all<LinkOpened>().size() == 1 && from.party.events.size() == 1) {
        from.party.say(id, followers_samples().front());
      }
      return !to.party.all<MessageReceived>().empty() || !from.party.all<LinkClosed>().empty() ||
             !from.party.all<MessageReceived>().empty();
    }));
    if (!to.party.all<MessageReceived>().empty()) {
      return true;
    }
    if (!from.party.all<MessageReceived>().empty()) {
      return false;  // refused
    }
  }
  return false;
}

std::string refusal(const Node& node) {
  const auto heard = node.party.all<MessageReceived>();
  return heard.empty() ? "" : std::get<Refuse>(*heard[0].message).text;
}

}  // namespace

TEST_CASE("first use: nodes with different tokens connect while the job forms, without a refusal") {
  Node left(kOne);
  Node right(kTwo);
  CHECK(meets(left, right));
  CHECK(right.first_use->guests() == std::set<std::string>{"127.0.0.1"});
  CHECK(meets(left, right));  // and without delay
  CHECK(right.party.all<TokenRefused>().empty());
  CHECK(left.notices.empty());
  CHECK(right.notices.empty());
  CHECK(right.first_use->close(round_at("10.0.0.7")));
  CHECK_FALSE(right.first_use->close(round_at("10.0.0.7")));  // one warning
}

TEST_CASE("first use: nodes with the same token use it") {
  Node left(kOne);
  Node right(kOne);
  CHECK(meets(left, right));
  CHECK(right.first_use->guests().empty());
}

TEST_CASE("first use: a node that requires a secret refuses, on either side") {
  for (const bool left_trusts : {true, false}) {
    Node left(kOne, left_trusts);
    Node right(kTwo, !left_trusts);
    CHECK_FALSE(meets(left, right));
    CHECK_THAT(refusal(left), Catch::Contains("token"));
  }
}

TEST_CASE("first use: once the job has formed, nodes and newcomers need its key") {
  Node left(kOne);
  Node right(kTwo);
  left.shares_key_of(right);
  CHECK_FALSE(right.first_use->close(round_at("10.0.0.7")));
  CHECK(meets(left, right));
  CHECK(right.first_use->guests().empty());
  Node stranger(kTwo + "3");
  CHECK_FALSE(meets(stranger, right));
  CHECK_THAT(refusal(stranger), Catch::StartsWith("this job has already formed"));
  // Nor does a node trust a stranger that it connects to.
  CHECK_FALSE(meets(right, stranger));
}

TEST_CASE("first use: a restarted member returns from its address without the key") {
  Node leader(kOne);
  static_cast<void>(leader.first_use->close(round_at("127.0.0.1")));
  Node returns(kTwo);
  CHECK(meets(returns, leader));
  CHECK(leader.first_use->guests().empty());
  CHECK_FALSE(leader.first_use->close(round_at("127.0.0.1")));
}

TEST_CASE("first use: nodes whose job keys differ use another common secret") {
  for (const bool have_token : {true, false}) {
    Node leader(kOne);
    Node node(have_token ? kOne : kTwo);
    node.first_use->learn(std::string(64, 'a'));
    static_cast<void>(leader.first_use->share());
    CHECK(meets(node, leader));
    CHECK(leader.first_use->guests().empty() == have_token);
    CHECK(leader.party.all<TokenRefused>().empty());
  }
}

TEST_CASE("first use: refuses a host that the platform does not list, without ending any wait") {
  Node leader(kOne);
  leader.first_use->limit_to({"10.0.0.1", "10.0.0.2"}, "SLURM_STEP_NODELIST");
  Node stranger(kTwo);
  CHECK_FALSE(meets(stranger, leader));
  CHECK_THAT(refusal(stranger),
             Catch::Contains("127.0.0.1 is not an address of a host in SLURM_STEP_NODELIST"));
  REQUIRE(leader.notices.size() == 1);
  CHECK_THAT(leader.notices[0],
             Catch::StartsWith("refused node at 127.0.0.1: ") && Catch::Contains("--token-file"));
  CHECK(leader.party.all<TokenRefused>().empty());
  CHECK(leader.first_use->guests().empty());
  // A common secret is sufficient, from any address.
  Node friendly(kOne);
  CHECK(meets(friendly, leader));
  // A stranger from another job learns nothing more.
  Node other(kTwo);
  other.party.sockets->set_job("other", &other.token, nullptr, &*other.first_use);
  CHECK_FALSE(meets(other, leader));
  CHECK_FALSE(refusal(other).find("SLURM_STEP_NODELIST") != std::string::npos);
}

TEST_CASE("first use: a node without a token admits nobody in plaintext") {
  for (const bool has_list : {true, false}) {
    CAPTURE(has_list);
    Node leader(kOne);
    FirstUse none("job", FirstUse::Admits::all_hosts, never);
    if (has_list) {
      none.limit_to({"10.0.0.1"}, "SLURM_STEP_NODELIST");
    }
    leader.party.sockets->set_job("job", nullptr, nullptr, &none);
    Node stranger(kTwo);
    stranger.party.sockets->set_job("job", nullptr, nullptr, nullptr);
    CHECK_FALSE(meets(stranger, leader));
    CHECK_THAT(refusal(stranger),
               Catch::Contains(has_list ? "SLURM_STEP_NODELIST" : "--token=none"));
  }
}

TEST_CASE("first use: a node whose keys have all failed does not connect in plaintext") {
  Node peer(kOne);
  peer.shares_key_of(peer);
  Node node(kTwo);
  FirstUse none("job", FirstUse::Admits::all_hosts, never);
  node.party.sockets->set_job("job", nullptr, nullptr, &none);
  static_cast<void>(none.share());
  CHECK(meets(node, peer));  // their job keys differ, so it notes that its own has failed
  static_cast<void>(none.close(round_at("10.0.0.7")));
  Node impostor(kOne);  // at the same address
  impostor.party.sockets->set_job("job", nullptr, nullptr, nullptr);
  CHECK_FALSE(meets(node, impostor));
}

TEST_CASE("first use: accepts a host that the platform lists, and always this machine") {
  Node leader(kOne);
  leader.first_use->limit_to({"127.0.0.1"}, "PBS_NODEFILE");
  Node node(kTwo);
  CHECK(meets(node, leader));
  FirstUse real("job");
  real.limit_to({"203.0.113.1"}, "PBS_NODEFILE");
  CHECK(real.is_named("127.0.0.1"));
  CHECK(real.is_named("203.0.113.1"));
  CHECK_FALSE(real.is_named("203.0.113.2"));
}

TEST_CASE("first use: a node connects to an address that is not in the list") {
  Node node(kOne);
  node.first_use->limit_to({"10.0.0.1"}, "SLURM_STEP_NODELIST");
  Node leader(kTwo);
  CHECK(meets(node, leader));
}

TEST_CASE("first use: applies between processes on one machine only without a token") {
  for (const auto admits : {FirstUse::Admits::other_hosts, FirstUse::Admits::all_hosts}) {
    FirstUse real("job", admits);
    const bool has_none = admits == FirstUse::Admits::all_hosts;
    CHECK(real.admits("127.0.0.1") == has_none);
    CHECK(real.admits("::1") == has_none);
    CHECK(real.admits("203.0.113.1"));
    real.note_guest("127.0.0.1");
    CHECK_FALSE(real.close(round_at("203.0.113.2")));  // our own processes are no strangers
    CHECK(real.admits("127.0.0.1") == has_none);
    CHECK_FALSE(real.admits("203.0.113.1"));
  }
}

TEST_CASE("first use: a job that may admit newcomers later does not claim otherwise") {
  FirstUse open("job", FirstUse::Admits::always);
  open.note_guest("203.0.113.1");
  CHECK_FALSE(open.close(round_at("203.0.113.1")));
  CHECK(open.admits("203.0.113.2"));
}
