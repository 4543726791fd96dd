// SPDX-License-Identifier: Apache-2.0
// Where --http listens.
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

std::string where(const std::string& value) {
  const LaunchConfig config = Launch{{"--http=" + value}, {}}.config();
  return config.http ? config.http->describe() : "nowhere";
}

}  // namespace

TEST_CASE("http: a port alone means loopback, other addresses must be explicit") {
  CHECK_FALSE((Launch{{}, {}}.config().http));
  CHECK(where("off") == "nowhere");
  CHECK(where("8080") == "127.0.0.1:8080");
  CHECK(where("0") == "127.0.0.1:0");
  CHECK(where("LocalHost:80") == "127.0.0.1:80");
  CHECK(where("0.0.0.0:80") == "0.0.0.0:80");
  CHECK(where("[::1]:80") == "[::1]:80");
}

TEST_CASE("http: requires a key unless disabled") {
  const LaunchConfig config = Launch{{"--http=80"}, {}}.config();
  CHECK(config.http_has_key);
  CHECK(config.http_key_file.empty());
  CHECK(Launch{{"--http=80", "--http-key=secret"}, {}}.config().http_key_file == "secret");
  const LaunchConfig open = Launch{{"--http=80", "--http-key=none"}, {}}.config();
  CHECK_FALSE(open.http_has_key);
  CHECK(open.http_key_file.empty());
}

TEST_CASE("http: rejects invalid addresses and missing ports") {
  for (const char* value : {"", "host:80", "127.0.0.1", "::1", "70000", "-1", "x", ":80"}) {
    CAPTURE(value);
    const auto refused = Launch{{"--http", value}, {}}.resolved();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::usage);
    CHECK(refused.error().message.starts_with("--http="));
  }
}
