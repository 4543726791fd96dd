// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/dialect.hpp"

#include "support/catch.hpp"

using namespace muster::bench;
using namespace std::string_literals;

TEST_CASE("dialect: greets TCPStore with VALIDATE and PING") {
  const auto hello = greeting(Protocol::tcpstore, {});
  CHECK(hello.request ==
        "\x00\xCE\xF7\x85\x3C\x0D"
        "CNEB"s);
  CHECK(hello.reply == "CNEB");
}

TEST_CASE("dialect: a TCPStore get contains lengths before key and value") {
  const auto get = exchange(Protocol::tcpstore, Operation::get, 7);
  CHECK(get.request == "\x03\x0C\0\0\0\0\0\0\0/bench/00007"s);
  CHECK(get.reply == "\x10\0\0\0\0\0\0\0value-0000000007"s);
}

TEST_CASE("dialect: a measured TCPStore set ends with a CHECK, a streamed one does not") {
  const auto measured = exchange(Protocol::tcpstore, Operation::set, 7);
  const auto streamed = streamed_set(Protocol::tcpstore, 7);
  CHECK(measured.request.starts_with(streamed.request));
  CHECK(measured.request.substr(streamed.request.size()) ==
        "\x05\x01\0\0\0\0\0\0\0\x0C\0\0\0\0\0\0\0/bench/00007"s);
  CHECK(measured.reply == "\0"s);
  CHECK(streamed.reply.empty());
}

TEST_CASE("dialect: redis requests are arrays of bulk strings") {
  CHECK(exchange(Protocol::redis, Operation::get, 7).request ==
        "*2\r\n$3\r\nGET\r\n$12\r\n/bench/00007\r\n");
  CHECK(exchange(Protocol::redis, Operation::get, 7).reply == "$16\r\nvalue-0000000007\r\n");
}

TEST_CASE("dialect: the echo transfers as many bytes as TCPStore") {
  for (const auto operation : {Operation::get, Operation::set, Operation::add}) {
    const auto store = exchange(Protocol::tcpstore, operation, 3);
    const auto echo = exchange(Protocol::echo, operation, 3);
    CHECK(echo.request.size() == store.request.size());
    CHECK(echo.reply.size() == store.reply.size());
  }
}

TEST_CASE("dialect: the greeting to the echo contains the sizes of request and reply") {
  CHECK(greeting(Protocol::echo, {"12345", "123", true}).request == "\x05\0\0\0\x03\0\0\0"s);
}

TEST_CASE("dialect: parses names of protocols and operations, rejects others") {
  CHECK(parse_protocol("redis") == Protocol::redis);
  CHECK_FALSE(parse_protocol("http"));
  for (const auto operation : {Operation::get, Operation::set, Operation::add}) {
    CHECK(parse_operation(name_of(operation)) == operation);
  }
  CHECK_FALSE(parse_operation("drop"));
}
