// SPDX-License-Identifier: Apache-2.0
#include "collective/control_word.hpp"

#include "support/catch.hpp"

#include <string>

namespace muster::collective {
namespace {

const Error kWhy{.code = Errc::aborted, .rank = 2, .seq = 7, .native = 5, .text = "NaN"};

TEST_CASE("control words: a word comes byte by byte") {
  const std::string bytes = ControlWords::encode(kWhy);
  ControlWords words;
  for (const char& byte : bytes) {
    CHECK_FALSE(words.word().has_value());
    words.take({&byte, 1});
  }
  CHECK(words.word() == kWhy);
}

TEST_CASE("control words: who leaves says so without a reason") {
  ControlWords words;
  words.take(ControlWords::encode(Error{}));
  CHECK(words.word() == Error{});
}

TEST_CASE("control words: the first one counts, and a rank that keeps talking is not kept") {
  ControlWords words;
  words.take(ControlWords::encode(kWhy));
  const std::string more(4096, 'x');
  for (int i = 0; i < 1000; ++i) {
    words.take(more);
  }
  CHECK(words.held() <= 2048);
  CHECK(words.word() == kWhy);
}

TEST_CASE("control words: long texts are cut, and lengths that lie read nothing else") {
  Error error = kWhy;
  error.text = std::string(5000, 'y');
  const std::string bytes = ControlWords::encode(error);
  ControlWords cut;
  cut.take(bytes);
  REQUIRE(cut.word().has_value());
  CHECK(cut.word()->text == std::string(1024, 'y'));
  std::string lies = ControlWords::encode(kWhy);
  lies.replace(12, 4, "\xff\xff\xff\xff");
  ControlWords waits;
  waits.take(lies);
  CHECK_FALSE(waits.word().has_value());
}

TEST_CASE("control words: a code that nobody knows is no word") {
  std::string strange = ControlWords::encode(kWhy);
  strange[0] = 99;
  ControlWords words;
  words.take(strange);
  CHECK_FALSE(words.word().has_value());
}

}  // namespace
}  // namespace muster::collective
