// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/control_message.hpp"

#include "support/catch.hpp"

#include <string>

namespace muster::collective {
namespace {

const Error kWhy{.code = Errc::aborted, .rank = 2, .seq = 7, .native = 5, .text = "NaN"};

TEST_CASE("control messages: a message may arrive byte by byte") {
  const std::string bytes = ControlMessages::encode(kWhy);
  ControlMessages messages;
  for (const char& byte : bytes) {
    CHECK_FALSE(messages.first().has_value());
    messages.take({&byte, 1});
  }
  CHECK(messages.first() == kWhy);
}

TEST_CASE("control messages: a rank that leaves sends an empty message") {
  ControlMessages messages;
  messages.take(ControlMessages::encode(Error{}));
  CHECK(messages.first() == Error{});
}

TEST_CASE("control messages: a welcome precedes the message, in one read or split") {
  Error longest = kWhy;
  longest.text = std::string(1024, 'y');
  const std::string bytes = ControlMessages::encode_welcome() + ControlMessages::encode(longest);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{5}, std::size_t{24}, std::size_t{30}}) {
    ControlMessages messages;
    CHECK_FALSE(messages.is_welcomed());
    messages.take({bytes.data(), cut});
    CHECK(messages.is_welcomed() == (cut >= 24));
    messages.take({bytes.data() + cut, bytes.size() - cut});
    CHECK(messages.is_welcomed());
    CHECK(messages.first() == longest);
  }
}

TEST_CASE("control messages: a reason may precede the welcome, and a second welcome is ignored") {
  ControlMessages messages;
  messages.take(ControlMessages::encode(kWhy));
  CHECK_FALSE(messages.is_welcomed());
  messages.take(ControlMessages::encode(Error{}) + ControlMessages::encode_welcome());
  CHECK(messages.is_welcomed());
  CHECK(messages.first() == kWhy);
  ControlMessages twice;
  twice.take(ControlMessages::encode_welcome());
  twice.take(ControlMessages::encode_welcome());
  CHECK_FALSE(twice.first().has_value());
}

TEST_CASE("control messages: only the first message counts, and further bytes are not stored") {
  ControlMessages messages;
  messages.take(ControlMessages::encode(kWhy));
  const std::string more(4096, 'x');
  for (int i = 0; i < 1000; ++i) {
    messages.take(more);
  }
  CHECK(messages.held() <= 2048);
  CHECK(messages.first() == kWhy);
}

TEST_CASE("control messages: truncates long texts, and reads nothing beyond a false length") {
  Error error = kWhy;
  error.text = std::string(5000, 'y');
  const std::string bytes = ControlMessages::encode(error);
  ControlMessages cut;
  cut.take(bytes);
  REQUIRE(cut.first().has_value());
  CHECK(cut.first()->text == std::string(1024, 'y'));
  std::string lies = ControlMessages::encode(kWhy);
  lies.replace(12, 4, "\xff\xff\xff\xff");
  ControlMessages waits;
  waits.take(lies);
  CHECK_FALSE(waits.first().has_value());
}

TEST_CASE("control messages: a message with an unknown code is invalid") {
  std::string strange = ControlMessages::encode(kWhy);
  strange[0] = 99;
  ControlMessages messages;
  messages.take(strange);
  CHECK_FALSE(messages.first().has_value());
}

}  // namespace
}  // namespace muster::collective
