// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/kineto_messages.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <cstring>
#include <string>

namespace muster {
namespace {

// As captured from PyTorch 2.15: the size of the data, the type in 32 bytes, the data.
std::string captured_request() {
  std::string out(40, '\0');
  out[0] = 20;
  std::memcpy(out.data() + 8, "req", 3);
  const std::int32_t data[] = {2, 1, 0, 0, 4452};  // activities, one pid, job 0, the pid
  return out + std::string(reinterpret_cast<const char*>(data), sizeof(data));
}

}  // namespace

TEST_CASE("Kineto's messages: a request is decoded, and an answer has the same format") {
  const auto message = decode_kineto(captured_request());
  REQUIRE(message);
  CHECK(message->type == kKinetoRequest);
  CHECK(message->data.size() == 20);
  CHECK(encode_kineto(*message) == captured_request());
  CHECK(encode_kineto({"req", ""}).size() == 40);
}

TEST_CASE("Kineto's messages: malformed datagrams are refused") {
  const std::string good = captured_request();
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(decode_kineto(good.substr(0, size)));
  }
  CHECK_FALSE(decode_kineto(good + "x"));
  std::string endless = good;
  std::memset(endless.data() + 8, 'x', 32);
  CHECK_FALSE(decode_kineto(endless));
  std::string huge = good;
  std::memset(huge.data(), 0xff, 8);
  CHECK_FALSE(decode_kineto(huge));
}

TEST_CASE("Kineto's configuration: steps, or a time at which all ranks begin") {
  CHECK(kineto_configuration({.rank = 1, .steps = 3, .file = "/t/rank_1.json"}) ==
        "ACTIVITIES_LOG_FILE=/t/rank_1.json\n"
        "PROFILE_START_ITERATION=0\n"
        "PROFILE_START_ITERATION_ROUNDUP=10\n"
        "ACTIVITIES_ITERATIONS=3\n");
  CHECK(kineto_configuration({.milliseconds = 250, .start = 1796046081806, .file = "/a.json"}) ==
        "ACTIVITIES_LOG_FILE=/a.json\n"
        "PROFILE_START_TIME=1796046081806\n"
        "ACTIVITIES_WARMUP_PERIOD_SECS=1\n"
        "ACTIVITIES_DURATION_MSECS=250\n");
}

}  // namespace muster
