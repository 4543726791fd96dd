// SPDX-License-Identifier: Apache-2.0
// A node's testimony about a connection to the store from its machine: its owner, as reported by
// the kernel.
#include "agent/store/store_admission.hpp"
#include "base/fd.hpp"
#include "io/socket_address.hpp"
#include "support/catch.hpp"

#include <array>
#include <functional>

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr int kMayNot = 77;

// A connection over loopback; `client` is the end whose owner is queried.
struct Connection {
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  StoreClient names;

  Connection() {
    const auto any = SocketAddress::parse("127.0.0.1", 0);
    REQUIRE(::bind(listener.get(), any->get(), any->size) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    const auto there = local_address(listener.get());
    REQUIRE(::connect(client.get(), there.get(), there.size) == 0);
    const auto here = local_address(client.get());
    names = {here.host(), here.port(), there.host(), there.port()};
  }
};

// Runs `work` in a child process; its result is the exit code.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(work());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The testimony while a child of the witness's process has the connection open.
VouchAnswer said_with_child(const Connection& connection) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) {
    return VouchAnswer::out_of_touch;
  }
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::close(pipe[1]);
    char byte = 0;
    static_cast<void>(::read(pipe[0], &byte, 1));  // until the other end is closed
    ::_exit(0);
  }
  JobSockets sockets;
  const auto said = SocketWitness(sockets).owner_of(connection.names);
  ::close(pipe[0]);
  ::close(pipe[1]);
  ::waitpid(holder, nullptr, 0);
  return said.value_or(VouchAnswer::out_of_touch);
}

}  // namespace

TEST_CASE("socket witness: a connection of a child process belongs to the job") {
  const Connection connection;
  CHECK(said_with_child(connection) == VouchAnswer::ours);
}

TEST_CASE(
    "socket witness: another process of the same user does not, nor does a missing connection") {
  const Connection connection;
  JobSockets sockets;
  SocketWitness witness(sockets);
  CHECK(witness.owner_of(connection.names) == VouchAnswer::other_process);
  StoreClient strange = connection.names;
  strange.store_port ^= 1U;
  CHECK(witness.owner_of(strange) == VouchAnswer::no_socket);
}

TEST_CASE(
    "socket witness: without a user id in the namespace, child processes are still recognized") {
  const Connection connection;
  const int code = in_child([&] {
    return ::unshare(CLONE_NEWUSER) == 0 ? static_cast<int>(said_with_child(connection)) : kMayNot;
  });
  if (code == kMayNot) {
    WARN("skipped: user namespaces are not permitted");
    return;
  }
  CHECK(code == static_cast<int>(VouchAnswer::ours));
}
