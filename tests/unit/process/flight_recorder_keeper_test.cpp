// SPDX-License-Identifier: Apache-2.0
// The launcher's half: which recorders it keeps, for which processes, and how many.
// tests/integration/test_flights.py covers real workers that were killed.
#include "process/deaths/flight_recorder_keeper.hpp"

#include "base/liveness_page.hpp"
#include "support/catch.hpp"

#include <string>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace muster;

namespace {

UniqueFd guest() {
  UniqueFd out(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UnixAddress address = flight_recorder_address(::getpid());
  REQUIRE(::connect(out.get(), address.raw(), address.size) == 0);
  return out;
}

void give(const UniqueFd& from, std::string_view word) {
  const UniqueFd memory(::memfd_create("flight-test", MFD_CLOEXEC));
  const int passed = memory.get();
  REQUIRE(send_with_fds(from.get(), word, {&passed, 1}));
}

}  // namespace

TEST_CASE("flight keeper: keeps a worker's recorder, even from a slow sender") {
  auto poller = Poller::open();
  REQUIRE(poller);
  FlightRecorderKeeper keeper(*poller, [](pid_t pid) { return pid == ::getpid(); });
  const UniqueFd slow = guest();
  poller->dispatch(0);
  CHECK(keeper.count() == 0);
  const UniqueFd quick = guest();
  give(quick, kFlightRecorderMessage);
  poller->dispatch(0);
  CHECK(keeper.count() == 1);
  give(slow, kFlightRecorderMessage);
  poller->dispatch(0);
  CHECK(keeper.count() == 2);
  keeper.forget_all();
  CHECK(keeper.count() == 0);
  pollfd ready{poller->fd(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 0) == 0);  // no worker is served twice
}

TEST_CASE("flight keeper: ignores strangers, invalid messages, missing memory and disconnects") {
  auto poller = Poller::open();
  REQUIRE(poller);
  bool is_worker = false;
  FlightRecorderKeeper keeper(*poller, [&is_worker](pid_t) { return is_worker; });
  const UniqueFd stranger = guest();
  give(stranger, kFlightRecorderMessage);
  poller->dispatch(0);
  is_worker = true;
  const UniqueFd other = guest();
  give(other, "muster-flights-0");
  const UniqueFd longer = guest();
  give(longer, std::string(kFlightRecorderMessage) + "!");
  const UniqueFd empty = guest();
  REQUIRE(::send(empty.get(), kFlightRecorderMessage.data(), kFlightRecorderMessage.size(), 0) > 0);
  static_cast<void>(guest());
  poller->dispatch(0);
  CHECK(keeper.count() == 0);
  pollfd ready{poller->fd(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 0) == 0);
}

TEST_CASE("flight keeper: keeps a limited number of recorders") {
  auto poller = Poller::open();
  REQUIRE(poller);
  FlightRecorderKeeper keeper(*poller, [](pid_t) { return true; });
  for (std::size_t i = 0; i < kMaxFlightRecorders + 5; ++i) {
    const UniqueFd one = guest();
    give(one, kFlightRecorderMessage);
    poller->dispatch(0);
  }
  CHECK(keeper.count() == kMaxFlightRecorders);
  // Silent clients occupy only their own slots.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(guest());
    poller->dispatch(0);
  }
  const UniqueFd last = guest();
  keeper.forget_all();
  give(last, kFlightRecorderMessage);
  poller->dispatch(0);
  CHECK(keeper.count() == 1);
}
