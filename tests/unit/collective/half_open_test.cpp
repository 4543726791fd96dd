// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/half_open.hpp"

#include "base/clock.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "support/catch.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace muster::collective {
namespace {

TimePoint later() {
  return steady_now() + std::chrono::minutes(1);
}

UniqueFd connected(const Listening& listening) {
  auto fd = connect_until("127.0.0.1", listening.port, later());
  REQUIRE(fd.has_value());
  return std::move(*fd);
}

LaneKey key(std::uint8_t byte) {
  LaneKey out;
  out.bytes.back() = byte;
  return out;
}

std::string bytes_of(const Hello& hello) {
  std::string out(sizeof(hello), '\0');
  std::memcpy(out.data(), &hello, sizeof(hello));
  return out;
}

Hello next_hello(HalfOpen& half_open) {
  const auto greeting = half_open.next(later());
  REQUIRE(greeting.has_value());
  REQUIRE(greeting->has_value());
  return (*greeting)->hello;
}

TEST_CASE("half open: serves a connection that has sent its hello before earlier silent ones") {
  const auto listening = listen_at("127.0.0.1", {});
  REQUIRE(listening.has_value());
  HalfOpen half_open(listening->fd.get());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(connected(*listening));
  }
  const TimePoint begin = steady_now();
  for (int rank = 1; rank <= 3; ++rank) {
    const UniqueFd member = connected(*listening);
    REQUIRE(send_all(member.get(), bytes_of({.key = key(7), .rank = rank, .lane = 2}), later()));
    const Hello hello = next_hello(half_open);
    CHECK(hello.key.matches(key(7)));
    CHECK(hello.rank == rank);
    CHECK(hello.lane == 2);
  }
  // One after the other, each would have waited for its own timeout.
  CHECK(steady_now() < begin + HalfOpen::kTimeout);
  CHECK(half_open.count() == 100);
}

TEST_CASE("half open: a hello may arrive in pieces") {
  const auto listening = listen_at("127.0.0.1", {});
  REQUIRE(listening.has_value());
  HalfOpen half_open(listening->fd.get());
  const UniqueFd member = connected(*listening);
  const std::string bytes = bytes_of({.key = key(9), .rank = 1});
  for (const char& byte : bytes) {
    const auto early = half_open.next(steady_now());
    REQUIRE(early.has_value());
    CHECK_FALSE(early->has_value());
    REQUIRE(send_all(member.get(), {&byte, 1}, later()));
  }
  CHECK(next_hello(half_open).key.matches(key(9)));
}

TEST_CASE("half open: beyond the limit it disconnects silent connections, oldest first") {
  const auto listening = listen_at("127.0.0.1", {});
  REQUIRE(listening.has_value());
  HalfOpen half_open(listening->fd.get());
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < HalfOpen::kMost + 20; ++i) {
    silent.push_back(connected(*listening));
  }
  const UniqueFd member = connected(*listening);
  REQUIRE(send_all(member.get(), bytes_of({.key = key(3)}), later()));
  CHECK(next_hello(half_open).key.matches(key(3)));
  CHECK(half_open.count() <= HalfOpen::kMost);
}

TEST_CASE("half open: without descriptors it disconnects silent ones; if there are none it fails") {
  const auto listening = listen_at("127.0.0.1", {});
  REQUIRE(listening.has_value());
  HalfOpen half_open(listening->fd.get());
  const UniqueFd silent = connected(*listening);
  CHECK_FALSE(half_open.next(steady_now())->has_value());
  CHECK(half_open.count() == 1);
  const UniqueFd member = connected(*listening);
  REQUIRE(send_all(member.get(), bytes_of({.key = key(5)}), later()));
  const UniqueFd another = connected(*listening);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd last(::dup(member.get()));
  const rlimit none{.rlim_cur = static_cast<rlim_t>(last.get()), .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto first = half_open.next(later());
  const auto second = half_open.next(later());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(first.has_value());
  CHECK((*first)->hello.key.matches(key(5)));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == Errc::system);
  CHECK(second.error().native == EMFILE);
  CHECK(second.error().text.find("descriptors; raise it with ulimit -n") != std::string::npos);
}

}  // namespace
}  // namespace muster::collective
