// SPDX-License-Identifier: Apache-2.0
#include "status/profile_path.hpp"

#include "status/hex_path.hpp"
#include "support/catch.hpp"

#include <string>

namespace muster {
namespace {

std::string path_with(const std::string& numbers, const std::string& file) {
  return "/v1/profile/" + numbers + "/" + to_hex(file);
}

}  // namespace

TEST_CASE("profile path: every request survives encoding and decoding") {
  const ProfileRequest steps{.rank = 3, .steps = 5, .file = "/logs/with blank/\xff?/rank_3.json"};
  CHECK(profile_request(profile_path(steps)) == steps);
  const ProfileRequest time{
      .rank = 70'000, .milliseconds = 250, .start = 1'796'046'081'806, .file = "/rank_0.json"};
  CHECK(profile_request(profile_path(time)) == time);
}

TEST_CASE("profile path: broken requests name nothing") {
  CHECK(profile_request(path_with("0/1/0/0", "/a.json")));
  for (const char* numbers : {"0/0/0/0",
                              "0/1/1/0",
                              "-1/1/0/0",
                              "0/-1/0/0",
                              "0/1/0",
                              "0/1/0/0/0",
                              "x/1/0/0",
                              "9999999999/1/0/0"}) {
    CHECK_FALSE(profile_request(path_with(numbers, "/a.json")));
  }
  // The name becomes a line of a configuration.
  for (const char* file : {"/a.json\nACTIVITIES_ENABLED=x.json",
                           "a.json",
                           "/a.txt",
                           "/a\r.json",
                           "/lr=0.1/a.json",
                           "/#1/a.json"}) {
    CHECK_FALSE(profile_request(path_with("0/1/0/0", file)));
  }
  CHECK_FALSE(profile_request("/v1/profile/0/1/0/0/"));
  CHECK_FALSE(profile_request("/v1/status"));
}

}  // namespace muster
