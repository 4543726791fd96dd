// SPDX-License-Identifier: Apache-2.0
#include "remote/messages.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("messages: each survives encoding and decoding") {
  const SetupMessage setup{7,
                           "a",
                           true,
                           "1-2",
                           32,
                           30,
                           "exec '/a b/muster' --remote-agent",
                           {"ssh", "-x"},
                           {"b", "c@d"}};
  CHECK(decode_setup(encode(setup)) == setup);
  CHECK(decode_setup(encode(SetupMessage{})) == SetupMessage{});
  const HelloMessage hello{"0.1.0", "10.0.0.1", 29400, "10.0.0.2"};
  CHECK(decode_hello(encode(hello)) == hello);
  const StartMessage start{"/a b", {"--", "x", ""}, {"A=1", "B=\n"}, "token", true};
  CHECK(decode_start(encode(start)) == start);
  CHECK(decode_start(encode(StartMessage{})) == StartMessage{});
}

TEST_CASE("messages: garbage is rejected") {
  for (const std::vector<std::string>& texts : {std::vector<std::string>{},
                                                {"1"},
                                                {"0.1", "a", "70000", ""},
                                                {"0.1", "a", "-1", ""},
                                                {"0.1", "a", "x", ""},
                                                {"/", "-1"},
                                                {"/", "0", ""},
                                                {"/", "9", "", "0", "a"},
                                                {"/", "0"},
                                                {"1", "a", "0", "", "x", "", "0", "0"},
                                                {"1", "a", "0", "", "1", "", "0", "x"},
                                                {"1", "a", "0", "", "1", "", "2", "0", "ssh"},
                                                {"65536", "a", "0", "", "1", "", "0", "0"}}) {
    const std::string payload = pack(texts);
    CHECK_FALSE(decode_setup(payload));
    CHECK_FALSE(decode_hello(payload));
    CHECK_FALSE(decode_start(payload));
  }
}
