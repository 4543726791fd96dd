// SPDX-License-Identifier: Apache-2.0
// The owner of a socket, according to this machine's kernel: connections over loopback, some of
// them made by a child process of another user.
#include "io/socket_owner.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <utility>

#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr uid_t kNobody = 65534;

UniqueFd listener_on(const std::string& host, bool is_v6) {
  UniqueFd fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = SocketAddress::parse(host, 0);
  REQUIRE(::bind(fd.get(), address->get(), address->size) == 0);
  REQUIRE(::listen(fd.get(), 8) == 0);
  return fd;
}

SocketAddress mapped(const SocketAddress& v4) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(v4.port());
  out.sin6_addr = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
  return *SocketAddress::copy_of(reinterpret_cast<const sockaddr&>(out));
}

UniqueFd connected_to(const SocketAddress& there) {
  UniqueFd fd(::socket(there.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_connected = ::connect(fd.get(), there.get(), there.size) == 0;
  return is_connected ? std::move(fd) : UniqueFd();
}

// The process that asks has only the server's end of the connection.
std::optional<SocketOwner> peer_owner(const UniqueFd& accepted) {
  const auto found =
      SocketDiag().owner_of(peer_address(accepted.get()), local_address(accepted.get()));
  INFO((found ? "" : found.error().message));
  REQUIRE(found);
  return *found;
}

std::optional<SocketOwner> expected(const UniqueFd& client) {
  struct stat about {};

  REQUIRE(::fstat(client.get(), &about) == 0);
  return SocketOwner{::geteuid(), about.st_ino};
}

UniqueFd accept_from(const UniqueFd& listener) {
  UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(fd);
  return fd;
}

// Runs `work` in a child process, whose exit code is 0 if it returned true.
pid_t in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(work() ? 0 : 1);
  }
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

}  // namespace

TEST_CASE("socket owner: finds our own socket, by IPv4, IPv6 and IPv4-mapped IPv6") {
  const auto v4 = listener_on("127.0.0.1", false);
  const auto v6 = listener_on("::1", true);
  const auto both = listener_on("::", true);
  const SocketAddress to_both =
      *SocketAddress::parse("127.0.0.1", local_address(both.get()).port());
  const std::pair<const UniqueFd*, SocketAddress> cases[] = {
      {&v4, local_address(v4.get())},
      {&v4, mapped(local_address(v4.get()))},
      {&v6, local_address(v6.get())},
      {&both, to_both},
      {&both, mapped(to_both)},
  };
  for (const auto& [listener, there] : cases) {
    INFO(there.describe());
    const auto client = connected_to(there);
    REQUIRE(client);
    CHECK(peer_owner(accept_from(*listener)) == expected(client));
  }
}

TEST_CASE("socket owner: finds the server's end in the same way") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  CHECK(peer_owner(client) == expected(accepted));
}

TEST_CASE("socket owner: a half-closed socket still has an owner") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  REQUIRE(::shutdown(client.get(), SHUT_WR) == 0);
  CHECK(peer_owner(accepted) == expected(client));
}

TEST_CASE("socket owner: does not mistake a listener on the same port for a connection") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto here = local_address(listener.get());
  const auto found = SocketDiag().owner_of(here, *SocketAddress::parse("127.0.0.1", 1));
  REQUIRE(found);
  CHECK(*found == std::nullopt);
}

TEST_CASE("socket owner: addresses of other machines and of mixed families have no owner") {
  const auto documentation = *SocketAddress::parse("192.0.2.7", 40000);
  const auto v4 = *SocketAddress::parse("127.0.0.1", 40001);
  const auto v6 = *SocketAddress::parse("2001:db8::7", 40001);
  CHECK(SocketDiag().owner_of(documentation, v4) ==
        Result<std::optional<SocketOwner>>(std::nullopt));
  CHECK(SocketDiag().owner_of(v6, v6) == Result<std::optional<SocketOwner>>(std::nullopt));
  CHECK(SocketDiag().owner_of(v6, v4) == Result<std::optional<SocketOwner>>(std::nullopt));
}

TEST_CASE("socket owner: a closed socket has no owner, and never falsely root") {
  const auto listener = listener_on("127.0.0.1", false);
  auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  client.reset();
  const auto owner = peer_owner(accepted);
  if (owner) {  // kernels that remember the owner
    CHECK(owner->inode == 0);
    CHECK(owner->uid == ::geteuid());
    CHECK(owner->uid != 0);
  }
}

TEST_CASE("socket owner: another user's socket has that user's id, and none after it is closed") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  const auto listener = listener_on("127.0.0.1", false);
  const SocketAddress there = local_address(listener.get());
  auto orders = make_pipe();
  REQUIRE(orders);
  const pid_t child = in_child([&] {
    orders->write.reset();
    char byte = 0;
    const bool is_nobody = become_nobody();
    const UniqueFd client = connected_to(there);
    return is_nobody && client && ::read(orders->read.get(), &byte, 1) == 0;
  });
  const auto accepted = accept_from(listener);
  const auto owner = peer_owner(accepted);
  REQUIRE(owner);
  CHECK(owner->uid == kNobody);
  CHECK(owner->inode != 0);
  orders->write.reset();
  CHECK(status_of(child) == 0);
  const auto after = peer_owner(accepted);
  CHECK((!after || after->uid == kNobody));
}

TEST_CASE("socket owner: another network namespace has no such socket") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  constexpr int kMayNot = 77;
  const pid_t child = in_child([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      ::_exit(kMayNot);
    }
    const auto found =
        SocketDiag().owner_of(peer_address(accepted.get()), local_address(accepted.get()));
    return found && *found == std::nullopt;
  });
  const int status = status_of(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNot) {
    WARN("skipped: a network namespace needs root");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("socket owner: a user without an id in our user namespace is unknown") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  constexpr int kMayNot = 77;
  const pid_t child = in_child([&] {
    if (::unshare(CLONE_NEWUSER) != 0) {
      ::_exit(kMayNot);
    }
    const auto found =
        SocketDiag().owner_of(peer_address(accepted.get()), local_address(accepted.get()));
    return found && *found && !(*found)->uid && (*found)->inode != 0;
  });
  const int status = status_of(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNot) {
    WARN("skipped: user namespaces are not permitted");
    return;
  }
  CHECK(status == 0);
}

// Run with muster_test_io_connect "[.timing]" from an optimised build.
TEST_CASE("socket owner: cost of a query", "[.timing]") {
  const auto listener = listener_on("127.0.0.1", false);
  const auto client = connected_to(local_address(listener.get()));
  const auto accepted = accept_from(listener);
  constexpr int kTimes = 20000;
  timespec before{};
  timespec after{};
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  for (int i = 0; i < kTimes; ++i) {
    REQUIRE(SocketDiag().owner_of(peer_address(accepted.get()), local_address(accepted.get())));
  }
  ::clock_gettime(CLOCK_MONOTONIC, &after);
  const double ns = 1e9 * static_cast<double>(after.tv_sec - before.tv_sec) +
                    static_cast<double>(after.tv_nsec - before.tv_nsec);
  WARN(ns / kTimes / 1000 << " us for each question");
}
