// SPDX-License-Identifier: Apache-2.0
#include "http/access.hpp"

#include "support/catch.hpp"

#include <string>

using namespace muster;

TEST_CASE("http access: Host headers that name this machine") {
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

TEST_CASE("http access: rejects a foreign Host header on a loopback listener only") {
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

namespace {

const std::string kKey = "0123456789abcdef0123456789abcdef";

HttpRequest request_for(const std::string& path, const std::string& query = "") {
  HttpRequest out;
  out.get = true;
  out.path = path;
  out.query = query;
  out.host = "localhost:8080";
  return out;
}

// The status of the refusal or redirect; 0: the request passes.
int status_of(const HttpRequest& request) {
  const HttpAccess access{true, kKey, {"/healthz"}};
  const auto refused = refuse(request, access);
  return refused ? refused->status : 0;
}

}  // namespace

TEST_CASE("http access: only open paths are answered without the key") {
  CHECK(status_of(request_for("/healthz")) == 0);
  for (const char* path : {"/", "/healthz/", "//healthz", "/v1/status", "/v1/events", "/nothing"}) {
    CAPTURE(path);
    CHECK(status_of(request_for(path)) == 401);
  }
  CHECK_FALSE(refuse(request_for("/v1/status"), HttpAccess{true}));
}

TEST_CASE("http access: a key in the URL becomes a cookie for this port and a clean URL") {
  const HttpAccess access{true, kKey, {}};
  const auto redirect = refuse(request_for("/v1/events", "a=1&key=" + kKey + "&b=2"), access);
  REQUIRE(redirect);
  CHECK(redirect->status == 303);
  CHECK(redirect->location == "/v1/events?a=1&b=2");
  CHECK(redirect->set_cookie == "muster-key-8080=" + kKey + "; Path=/; HttpOnly; SameSite=Strict");
  for (const char* path : {"//example.org/", "http://example.org/"}) {
    CHECK(refuse(request_for(path, "key=" + kKey), access)->location == "/");
  }
  CHECK(status_of(request_for("/", "key=" + kKey + "0")) == 401);
  CHECK(status_of(request_for("/", "key=")) == 401);
}

TEST_CASE("http access: accepts the key as a cookie or as a bearer token") {
  HttpRequest request = request_for("/");
  request.cookie = "a=1; muster-key-8080=" + kKey + "; b=2";
  CHECK(status_of(request) == 0);
  request.host = "localhost:9090";
  CHECK(status_of(request) == 401);
  request.authorization = "bearer " + kKey;
  CHECK(status_of(request) == 0);
  for (const std::string& text :
       {std::string(), "Bearer " + kKey.substr(1), "Basic " + kKey, kKey}) {
    CAPTURE(text);
    request.authorization = text;
    CHECK(status_of(request) == 401);
  }
}

TEST_CASE("http access: compares secrets as a whole") {
  CHECK(same_secret(kKey, kKey));
  CHECK_FALSE(same_secret(kKey + kKey, kKey));
  CHECK_FALSE(same_secret("", kKey));
  CHECK_FALSE(same_secret("", ""));
  CHECK(is_url_safe(kKey));
  CHECK_FALSE(is_url_safe("a;b"));
}
