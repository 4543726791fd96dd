// SPDX-License-Identifier: Apache-2.0
#include "io/resolver.hpp"

#include "fake_dns.hpp"
#include "private_etc.hpp"
#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;
using Found = std::vector<std::string>;

namespace {

constexpr Duration kLong = 20s;

Errc error_of(const std::string& name, Duration timeout = kLong) {
  const auto found = resolve_blocking(name, timeout);
  REQUIRE_FALSE(found.has_value());
  INFO(found.error().message);
  CHECK(found.error().message.find("'" + name + "'") != std::string::npos);
  return found.error().code;
}

}  // namespace

TEST_CASE("resolver: numeric addresses stay unchanged") {
  start_with_empty_etc();
  for (const auto* address : {"127.0.0.1", "10.1.2.3", "::1", "fe80::1%lo", "2001:DB8::1"}) {
    CHECK(resolve_blocking(address, kLong) == Found{address});
  }
}

TEST_CASE("resolver: localhost works with an empty /etc and without any server") {
  start_with_empty_etc();
  FakeDns server("127.0.0.1", {.addresses = {{"localhost", {"10.6.6.6"}}}});
  for (const auto* name : {"localhost", "LocalHost", "localhost.", "a.localhost"}) {
    CHECK(resolve_blocking(name, kLong) == Found{"127.0.0.1", "::1"});
  }
  CHECK(server.questions() == 0);
}

TEST_CASE("resolver: names in the hosts file need no server, and IPv4 comes first") {
  start_with_empty_etc();
  write_etc("hosts", "fd00::7 node7 seven\n10.0.0.7 node7\n10.0.0.8 node8 # eight\n");
  FakeDns server("127.0.0.1", {.addresses = {{"node7", {"10.6.6.6"}}}});
  CHECK(resolve_blocking("node7", kLong) == Found{"10.0.0.7", "fd00::7"});
  CHECK(resolve_blocking("NODE8", kLong) == Found{"10.0.0.8"});
  CHECK(resolve_blocking("seven", kLong) == Found{"fd00::7"});
  CHECK(server.questions() == 0);
}

TEST_CASE("resolver: a DNS server returns both kinds of addresses") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\nsearch cluster.example\n");
  FakeDns server("127.0.0.1",
                 {.addresses = {{"a.example", {"fd00::1", "10.0.0.1", "10.0.0.2"}},
                                {"six.example", {"fd00::6"}},
                                {"node1.cluster.example", {"10.0.0.11"}}}});
  CHECK(resolve_blocking("a.example", kLong) == Found{"10.0.0.1", "10.0.0.2", "fd00::1"});
  CHECK(resolve_blocking("six.example", kLong) == Found{"fd00::6"});
  CHECK(resolve_blocking("node1", kLong) == Found{"10.0.0.11"});  // through the search domain
  CHECK(error_of("nobody.example") == Errc::not_found);
}

TEST_CASE("resolver: a silent DNS server ends at the caller's timeout") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.silent = true});
  CHECK(error_of("a.example", 100ms) == Errc::timed_out);
  CHECK(server.questions() > 0);
}

TEST_CASE("resolver: skips a silent server if another one answers", "[slow]") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.2\nnameserver 127.0.0.1\n");
  FakeDns silent("127.0.0.2", {.silent = true});
  FakeDns server("127.0.0.1", {.addresses = {{"a.example", {"10.0.0.1"}}}});
  CHECK(resolve_blocking("a.example", kLong) == Found{"10.0.0.1"});
  CHECK(silent.questions() > 0);
}

TEST_CASE("resolver: a server that drops AAAA queries does not affect the answer for A") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.addresses = {{"a.example", {"10.0.0.1"}}}, .drop_aaaa = true});
  CHECK(resolve_blocking("a.example", kLong) == Found{"10.0.0.1"});
}

TEST_CASE("resolver: reports at once that there is no DNS server") {
  start_with_empty_etc();
  CHECK(error_of("a.example", 1h) == Errc::unreachable);  // no server on 127.0.0.1, the default
  write_etc("resolv.conf", "nameserver 10.9.9.9\n");      // no route in this namespace
  CHECK(error_of("a.example", 1h) == Errc::unreachable);
}

TEST_CASE("resolver: an nsswitch file with unknown modules has no effect") {
  start_with_empty_etc();
  write_etc("hosts", "10.0.0.7 node7\n");
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.addresses = {{"a.example", {"10.0.0.1"}}}});
  for (const auto* line : {"hosts: nosuchmodule [NOTFOUND=return] files dns\n",
                           "hosts: nosuchmodule\n",
                           "hosts:\n",
                           "\x7f\x45 rubbish\n"}) {
    write_etc("nsswitch.conf", line);
    CHECK(resolve_blocking("node7", kLong) == Found{"10.0.0.7"});
    CHECK(resolve_blocking("a.example", kLong) == Found{"10.0.0.1"});
  }
}

TEST_CASE("resolver: rejects an impossible name without a query") {
  start_with_empty_etc();
  FakeDns server("127.0.0.1", {});
  const std::string long_name(300, 'a');
  for (const auto& name : {std::string(), std::string("a b"), std::string("a/b"), long_name}) {
    CHECK(error_of(name) == Errc::usage);
  }
  CHECK(server.questions() == 0);
}
