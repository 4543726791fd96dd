// SPDX-License-Identifier: Apache-2.0
#include "io/name_lookup.hpp"

#include "fake_dns.hpp"
#include "private_etc.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <optional>

using namespace muster;
using namespace std::chrono_literals;
using Found = std::vector<std::string>;

namespace {

// Counts ticks, which happen only if the loop is not blocked.
struct Ticker {
  asio::steady_timer timer;
  int count = 0;
  int count_max;
  std::function<void()> when_done;

  void tick() {
    timer.expires_after(1ms);
    timer.async_wait([this](const std::error_code& error) {
      if (!error && ++count < count_max) {
        tick();
      } else if (!error) {
        when_done();
      }
    });
  }
};

}  // namespace

TEST_CASE("name lookup: the answer arrives through the loop, not inside the call") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.addresses = {{"a.example", {"10.0.0.1"}}}});
  for (const auto& [name, address] :
       std::map<std::string, std::string>{{"a.example", "10.0.0.1"}, {"::1", "::1"}}) {
    asio::io_context loop;
    std::optional<Result<Found>> found;
    const NameLookup lookup(loop, name, 20s, [&](auto result) { found = std::move(result); });
    CHECK_FALSE(found);
    loop.run();
    REQUIRE(found);
    CHECK(*found == Found{address});
  }
}

TEST_CASE("name lookup: a silent server never blocks the loop") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.silent = true});
  asio::io_context loop;
  bool called = false;
  std::optional<NameLookup> lookup;
  lookup.emplace(loop, "a.example", 1h, [&](const auto&) { called = true; });
  Ticker ticker{asio::steady_timer(loop), 0, 200, [&] { lookup.reset(); }};
  ticker.tick();
  loop.run();  // returns only because the cancelled lookup left nothing on the loop
  CHECK(ticker.count == 200);
  CHECK_FALSE(called);
  CHECK(server.questions() > 0);
}

TEST_CASE("name lookup: a timeout ends a silent lookup with an error") {
  start_with_empty_etc();
  write_etc("resolv.conf", "nameserver 127.0.0.1\n");
  FakeDns server("127.0.0.1", {.silent = true});
  asio::io_context loop;
  std::optional<Result<Found>> found;
  const NameLookup lookup(loop, "a.example", 50ms, [&](auto result) { found = std::move(result); });
  loop.run();
  REQUIRE(found);
  REQUIRE_FALSE(found->has_value());
  CHECK(found->error().code == Errc::timed_out);
}

TEST_CASE("name lookup: never calls back if it is destroyed before the loop runs") {
  start_with_empty_etc();
  asio::io_context loop;
  bool called = false;
  {
    const NameLookup lookup(loop, "127.0.0.1", 1s, [&](const auto&) { called = true; });
  }
  loop.run();
  CHECK_FALSE(called);
}

TEST_CASE("name lookup: the callback may destroy its own lookup") {
  start_with_empty_etc();
  asio::io_context loop;
  int calls = 0;
  std::optional<NameLookup> lookup;
  lookup.emplace(loop, "localhost", 1s, [&](const auto&) {
    ++calls;
    lookup.reset();
  });
  loop.run();
  CHECK(calls == 1);
}
