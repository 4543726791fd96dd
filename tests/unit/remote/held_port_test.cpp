// SPDX-License-Identifier: Apache-2.0
#include "remote/held_port.hpp"

#include "support/catch.hpp"

#include <cerrno>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

using namespace muster;

namespace {

// 0, or the errno.
int try_listen(std::uint16_t port, bool reuse) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  return bound && ::listen(fd.get(), 1) == 0 ? 0 : errno;
}

}  // namespace

TEST_CASE("held port: nobody gets it but who sets SO_REUSEADDR") {
  const auto held = hold_port("");
  REQUIRE(held);
  CHECK(held->port != 0);
  CHECK(try_listen(held->port, false) == EADDRINUSE);
  CHECK(try_listen(held->port, true) == 0);
}

TEST_CASE("held port: two in one range have different ones, and a full range says so") {
  const auto any = hold_port("");
  REQUIRE(any);
  const std::string one = std::to_string(any->port);
  CHECK(hold_port(one + "-" + one).error().message ==
        "--port-range=" + one + "-" + one + ": no port of it is free");
  const auto first = hold_port("21000-31000");
  const auto second = hold_port("21000-31000");
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->port != second->port);
  CHECK(first->port >= 21000);
  CHECK_FALSE(hold_port("5"));
  CHECK_FALSE(hold_port("0-5"));
}
