// SPDX-License-Identifier: Apache-2.0
// LinkSockets and clients: which are admitted, how much strangers may use, and what happens if
// there are too few descriptors.
#include "link_party.hpp"
#include "unit/rendezvous/server/admission_fixture.hpp"

#include <algorithm>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// A party that records its notices.
struct Host : Party {
  explicit Host(const LinkLimits& limits = {}) : Party(limits) {
    sockets->set_notice([this](const std::string& text) { notices.push_back(text); });
  }

  // Runs turns until there is nothing left to do.
  void settle() {
    do {
      turn();
    } while (is_ready(sockets->fd()));
  }

  // A connection that the party has accepted.
  UniqueFd stranger() {
    UniqueFd fd = plain(*this);
    settle();
    return fd;
  }

  // One that has sent Hello.
  UniqueFd member() {
    UniqueFd fd = plain(*this);
    write(fd, hello_bytes());
    settle();
    return fd;
  }

  std::vector<std::string> notices;
};

bool was_answered(const UniqueFd& fd) {
  bool closed = false;
  return !read_some(fd, closed).empty();
}

}  // namespace

TEST_CASE("strangers: get no reply and cause no event before they are admitted") {
  Host host;
  HeldAdmission admission;
  host.sockets->set_admission(&admission);
  const UniqueFd client = host.stranger();
  CHECK(admission.peers.empty());  // it has sent nothing yet
  write(client, hello_bytes().substr(0, 12));
  host.settle();
  write(client, hello_bytes().substr(12));
  host.settle();
  REQUIRE(admission.peers.size() == 1);
  const SocketAddress mine = local_address(client.get());
  CHECK(admission.peers[0] == PeerAddress{"127.0.0.1", mine.port(), "127.0.0.1", host.port});
  CHECK_FALSE(was_answered(client));
  CHECK(host.events.empty());
  // The answer arrives between two turns, and triggers the next one.
  admission.answers[0]({});
  CHECK(host.events.empty());
  REQUIRE(is_ready(host.sockets->fd()));
  host.settle();
  CHECK(host.all<LinkAccepted>().size() == 1);
  CHECK(host.all<MessageReceived>().size() == 1);
  CHECK(was_answered(client));
  CHECK(admission.peers.size() == 1);
  CHECK_FALSE(host.sockets->next_deadline());
}

TEST_CASE("strangers: an immediate answer works, too") {
  Host host;
  AdmitEverybody admission;
  host.sockets->set_admission(&admission);
  const UniqueFd client = host.member();
  CHECK(host.all<MessageReceived>().size() == 1);
  CHECK(was_answered(client));
}

TEST_CASE("strangers: closes a refused one without sending a byte, and logs the reason") {
  Host host;
  HeldAdmission admission;
  host.sockets->set_admission(&admission);
  const UniqueFd client = host.stranger();
  // A different version would receive the list of supported ones.
  write(client, std::string("\xA7MUSTER\x63\x00", 9));
  host.settle();
  REQUIRE(admission.answers.size() == 1);
  CHECK_FALSE(was_answered(client));
  admission.answers[0](failure(Errc::not_possible, "no key"));
  bool closed = false;
  CHECK(read_some(client, closed).empty());
  CHECK(closed);
  CHECK(host.notices ==
        std::vector<std::string>{"refused the connection from " +
                                 local_address(client.get()).describe() + ": no key"});
  admission.answers[0]({});
  host.settle();
  CHECK(host.events.empty());
  CHECK(host.sockets->drained());
}

TEST_CASE("strangers: forgets one that disconnects before the answer") {
  Host host;
  HeldAdmission admission;
  host.sockets->set_admission(&admission);
  host.member().reset();
  REQUIRE(until({&host}, [&] { return host.sockets->drained(); }));
  const UniqueFd next = host.member();
  REQUIRE(admission.answers.size() == 2);
  admission.answers[0]({});
  host.settle();
  CHECK(host.events.empty());
  admission.answers[1]({});
  host.settle();
  CHECK(host.all<MessageReceived>().size() == 1);
  host.sockets.reset();
  admission.answers[1]({});  // the client is gone
}

TEST_CASE("strangers: connections that wait for admission are limited in number, bytes and time") {
  Host host;
  HeldAdmission admission;
  host.sockets->set_admission(&admission, {.sessions = 3, .first_bytes = 6, .answer = 20s});
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 4; ++i) {
    fds.push_back(host.member());
  }
  CHECK(is_closed(fds[0]));
  REQUIRE(host.notices.size() == 1);
  CHECK(host.notices[0].ends_with("too many connections are waiting for admission"));
  // Six bytes of this one were read; the rest of its Hello stayed in the kernel.
  admission.answers[1]({});
  host.settle();
  CHECK(host.all<MessageReceived>().size() == 1);
  const auto deadline = host.sockets->next_deadline();
  REQUIRE(deadline);
  host.sockets->settle(*deadline - 1ms);
  CHECK_FALSE(is_closed(fds[2]));
  host.sockets->settle(steady_now() + 21s);
  CHECK(is_closed(fds[2]));
  CHECK(is_closed(fds[3]));
  CHECK(host.notices.size() == 1);  // one per minute
}

TEST_CASE(
    "strangers: closes one that sends more than the limit, even before admission is decided") {
  LinkLimits limits;
  limits.held_bytes = 11;
  Host host(limits);
  HeldAdmission admission;
  host.sockets->set_admission(&admission);
  const UniqueFd client = host.member();
  CHECK(is_closed(client));
  CHECK(admission.peers.empty());
  CHECK(host.sockets->drained());
}

TEST_CASE(
    "strangers: use at most a quarter of the descriptors, even while they wait for admission") {
  Host host;
  HeldAdmission admission;
  host.sockets->set_admission(&admission);
  const FileLimit limit(64);
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 20; ++i) {
    fds.push_back(i < 10 ? host.member() : host.stranger());
  }
  CHECK(admission.peers.size() == 10);
  const auto left = std::ranges::count_if(fds, [](const auto& fd) { return !is_closed(fd); });
  CHECK(left == 16);
  CHECK_FALSE(is_closed(fds.back()));
}

TEST_CASE("strangers: an unread Hello protects its connection") {
  Host host;
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 40; ++i) {
    fds.push_back(plain(host));
    write(fds.back(), hello_bytes());
  }
  // All of them are in the backlog, and are accepted before any of them is read.
  const FileLimit limit(limit_for(80));
  host.settle();
  CHECK(host.all<LinkAccepted>().size() == 40);
}

TEST_CASE("strangers: without a free descriptor it closes the oldest stranger, never a member") {
  Host host;
  std::vector<UniqueFd> fds;
  fds.push_back(host.member());
  fds.push_back(host.stranger());
  fds.push_back(host.stranger());
  fds.push_back(plain(host));
  const FileLimit limit(limit_for(0));
  write(fds.back(), hello_bytes());
  host.settle();
  CHECK(host.all<LinkAccepted>().size() == 2);
  CHECK(host.all<LinkClosed>().empty());
  CHECK(is_closed(fds[1]));
  CHECK_FALSE(is_closed(fds[2]));
  CHECK(host.notices.empty());
}

TEST_CASE("strangers: a peer that does not close after our last message is closed first") {
  Host host;
  const UniqueFd stranger = host.stranger();
  const UniqueFd told = host.member();
  host.sockets->close(host.all<LinkAccepted>()[0].link);
  host.settle();
  CHECK_FALSE(host.sockets->drained());
  const UniqueFd next = plain(host);
  const FileLimit limit(limit_for(0));
  write(next, hello_bytes());
  host.settle();
  CHECK(host.all<LinkAccepted>().size() == 2);
  CHECK_FALSE(is_closed(stranger));
}

TEST_CASE("strangers: without descriptors it sleeps, warns once, and resumes when one is free") {
  Host host;
  std::vector<UniqueFd> fds;
  fds.push_back(host.member());
  fds.push_back(host.member());
  for (int i = 0; i < 3; ++i) {
    fds.push_back(plain(host));
    write(fds.back(), hello_bytes());
  }
  FileLimit limit(limit_for(0));
  host.settle();
  CHECK(host.all<LinkAccepted>().size() == 2);
  CHECK_FALSE(is_ready(host.sockets->fd()));
  REQUIRE(host.sockets->next_deadline());
  host.sockets->settle(*host.sockets->next_deadline());
  host.settle();
  CHECK_FALSE(is_ready(host.sockets->fd()));
  CHECK(host.notices ==
        std::vector<std::string>{"cannot accept another node: Too many open files; new "
                                 "connections wait until another one closes; raise the limit on "
                                 "open files (ulimit -n)"});
  // A member that disconnects frees descriptors immediately: two here, because both of its ends
  // were ours.
  fds[0].reset();
  REQUIRE(until({&host}, [&] { return host.all<LinkAccepted>().size() == 4; }));
  limit.lift();
  REQUIRE(host.sockets->next_deadline());
  host.sockets->settle(*host.sockets->next_deadline());
  REQUIRE(until({&host}, [&] { return host.all<LinkAccepted>().size() == 5; }));
  CHECK(host.notices.size() == 1);
}
