// SPDX-License-Identifier: Apache-2.0
#include "status/forget_path.hpp"

#include "support/catch.hpp"

namespace muster {

TEST_CASE("forget path: every name survives encoding and decoding") {
  CHECK(forget_path("n1") == "/v1/forget/6e31");
  for (const std::string name : {"n1", "a/b?c=%20\xff", "\x01"}) {
    CHECK(forgotten_node(forget_path(name)) == name);
  }
}

TEST_CASE("forget path: other and broken paths name no node") {
  for (const char* path : {"/v1/status",
                           "/v1/forget/",
                           "/v1/forget/6",
                           "/v1/forget/6e3",
                           "/v1/forget/6g",
                           "/v1/forget/-1",
                           "/v1/forget/6e31/"}) {
    CHECK_FALSE(forgotten_node(path));
  }
}

}  // namespace muster
