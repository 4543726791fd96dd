// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/refusal_notes.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("refusal notes: reports the first one, then one per minute, and counts all") {
  const Error why{Errc::not_possible, "no key"};
  const TimePoint start{};
  RefusalNotes notes;
  CHECK(notes.refused("a:1", why, start) == "refused the connection from a:1: no key");
  for (int i = 0; i < 59; ++i) {
    CHECK_FALSE(notes.refused("a:1", why, start + i * 1s));
  }
  CHECK(notes.refused("b:2", why, start + 60s) ==
        "refused the connection from b:2: no key (and 59 more since the last report)");
  CHECK_FALSE(notes.refused("b:2", why, start + 61s));
  CHECK(notes.refused("b:2", why, start + 1h) ==
        "refused the connection from b:2: no key (and 1 more since the last report)");
}
