// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/backoff.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("backoff: delays vary between half and one and a half times a growing mean") {
  for (const std::uint64_t seed : {0ULL, 1ULL, 42ULL, ~0ULL}) {
    Backoff backoff(seed);
    Duration mean = Backoff::kFirst;
    for (int i = 0; i < 40; ++i) {
      const Duration delay = backoff.next();
      CHECK(delay >= mean / 2);
      CHECK(delay <= mean * 3 / 2);
      mean = std::min(mean + mean / 2, Backoff::kMost);
    }
    CHECK(mean == Backoff::kMost);
  }
}

TEST_CASE("backoff: clients with different seeds do not return at the same time") {
  Backoff one(1);
  Backoff other(2);
  int same = 0;
  for (int i = 0; i < 20; ++i) {
    same += one.next() == other.next() ? 1 : 0;
  }
  CHECK(same < 3);
}
