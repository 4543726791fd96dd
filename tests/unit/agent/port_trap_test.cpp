// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/port_trap.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

const StoreFacts kStore{"127.0.0.1", 40001, 30};

WorkerEnvironment with(std::map<std::string, std::string> variables) {
  return WorkerEnvironment{7, "python3", std::move(variables)};
}

std::optional<std::uint16_t> wrong(const std::string& port, const std::string& served = "True") {
  return wrong_port(kStore,
                    with({{"MASTER_PORT", port}, {"TORCHELASTIC_USE_AGENT_STORE", served}}));
}

}  // namespace

TEST_CASE("port trap: detects a MASTER_PORT other than the port of the launcher's store") {
  CHECK(wrong("12355") == 12355);
  CHECK_FALSE(wrong("40001"));
  CHECK_FALSE(wrong("12355", "False"));
}

TEST_CASE("port trap: ignores variables that are missing or are not a port") {
  for (const char* text : {"", "0", "x", "12355x", "-1", "99999", " 12355"}) {
    CHECK_FALSE(wrong(text));
  }
  CHECK_FALSE(wrong_port(kStore, with({{"MASTER_PORT", "12355"}})));
  CHECK_FALSE(wrong_port(kStore, with({{"TORCHELASTIC_USE_AGENT_STORE", "True"}})));
  CHECK_FALSE(wrong_port(kStore, with({})));
}

TEST_CASE("port trap: the warning contains the observation and the remedy") {
  const std::string line = describe_trap(kStore, with({}), 12355);
  for (const char* part : {"process 7 (python3)",
                           "MASTER_PORT to 12355",
                           "127.0.0.1:40001",
                           "for 30 s",
                           "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"}) {
    CHECK(line.find(part) != std::string::npos);
  }
  StoreFacts elsewhere = kStore;
  elsewhere.is_here = false;
  CHECK(describe_trap(elsewhere, with({}), 12355)
            .find("and no process on this host has been connected to it for 30 s") !=
        std::string::npos);
}

TEST_CASE("port trap: parses listening sockets from the kernel's list") {
  const std::string text =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 0100007F:3039 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0100007F:3040 0100007F:3041 01 00000000:00000000 00:00000000 00000000     0\n";
  CHECK(listens_in(text, 0x3039));
  CHECK_FALSE(listens_in(text, 0x3040));  // connected
  CHECK_FALSE(listens_in(text, 0x3041));
  CHECK_FALSE(listens_in(text, 0));
  CHECK(
      listens_in("   1: 00000000000000000000000000000000:3039 "
                 "00000000000000000000000000000000:0000 0A 0:0\n",
                 0x3039));
  CHECK_FALSE(listens_in(":3039 \n0: :3039 ", 0x3039));
}

TEST_CASE("port trap: parses connected sockets, except the launcher's own") {
  const std::string text =
      "   0: 0100007F:3039 00000000:0000 0A 0:0 00:0 0 0 0 11 1 0 100\n"
      "   1: 0100007F:3040 0100007F:3041 01 0:0 00:0 0 0 0 12 1 0 20\n";
  CHECK(connects_in(text, 0x3041, {}));
  CHECK(connects_in(text, 0x3041, {"11"}));
  CHECK_FALSE(connects_in(text, 0x3041, {"12"}));
  CHECK_FALSE(connects_in(text, 0x3040, {}));  // the other end of the connection
  CHECK_FALSE(connects_in(text, 0x3039, {}));  // listens
  CHECK_FALSE(connects_in("", 0, {}));
}
