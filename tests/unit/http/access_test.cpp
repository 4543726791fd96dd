// SPDX-License-Identifier: Apache-2.0
#include "http/access.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("http access: which Host headers name this machine") {
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.1.2.3:80", "[::1]:9"}) {
    CAPTURE(host);
    CHECK(names_loopback(host));
  }
  for (const char* host : {"",
                           "example.org",
                           "127.0.0.1.example.org",
                           "localhost.example.org:80",
                           "10.0.0.1",
                           "[::2]",
                           "127.0.0",
                           "127..0.1",
                           "localhost:x",
                           "127.0.0.1x"}) {
    CAPTURE(host);
    CHECK_FALSE(names_loopback(host));
  }
}

TEST_CASE("http access: a foreign Host is refused on a loopback listener only") {
  HttpRequest request;
  request.get = true;
  request.host = "example.org";
  CHECK_FALSE(refuse(request, HttpAccess{false}));
  REQUIRE(refuse(request, HttpAccess{true}));
  CHECK(refuse(request, HttpAccess{true})->status == 403);
  request.host = "localhost";
  CHECK_FALSE(refuse(request, HttpAccess{true}));
  request.get = false;
  CHECK(refuse(request, HttpAccess{true})->status == 405);
}
