// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/debug_clients.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

// The columns after the state are omitted.
constexpr std::string_view kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr\n"
    "   0: 0100007F:162E 00000000:0000 0A 00000000:00000000 00\n"
    "   1: 0100007F:162F 0100007F:D431 01 00000000:00000000 00\n"
    "   2: 0100007F:1630 0100007F:D432 06 00000000:00000000 00\n"
    "   3: 0100007F:1630 0100007F:D433 01 00000000:00000000 00\n"
    "   4: 0100007F:D431 0100007F:162F 01 00000000:00000000 00\n"
    "   5: 0200007F:1631 0200007F:D431 01 00000000:00000000 00\n";

}  // namespace

TEST_CASE("clients of a port on 127.0.0.1") {
  CHECK_FALSE(has_client(kTable, 0x162E));  // only the listener
  CHECK(has_client(kTable, 0x162F));
  CHECK(has_client(kTable, 0x1630));        // beside a closed connection
  CHECK_FALSE(has_client(kTable, 0x1631));  // another address
  CHECK_FALSE(has_client(kTable, 0x1632));
  CHECK_FALSE(has_client("", 0x162E));
  CHECK_FALSE(has_client(": 0100007F:162E ", 0x162E));
}
