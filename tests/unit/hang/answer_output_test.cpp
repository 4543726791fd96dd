// SPDX-License-Identifier: Apache-2.0
#include "hang/answer_output.hpp"

#include "support/catch.hpp"

namespace muster::hang {
namespace {

constexpr TimePoint kNow{std::chrono::seconds(1000)};

}  // namespace

TEST_CASE("output that a rank prints during its answer does not count, later output does") {
  AnswerOutput answers;
  CHECK(answers.count(0, 100, kNow) == 100);
  answers.asked(0, 120, kNow);
  CHECK(answers.count(0, 200, kNow + std::chrono::seconds(4)) == 120);
  CHECK(answers.count(0, 220, kNow + kAnswerOutput) == 140);
  CHECK(answers.count(1, 220, kNow) == 220);  // it was not queried
}

TEST_CASE("output counts again shortly after the answer") {
  AnswerOutput answers;
  answers.asked(0, 100, kNow);
  CHECK(answers.is_answering(0, kNow + std::chrono::seconds(4)));
  CHECK_FALSE(answers.is_answering(1, kNow));
  answers.answered(kNow + std::chrono::seconds(4));
  CHECK(answers.count(0, 150, kNow + std::chrono::seconds(4)) == 100);
  CHECK_FALSE(answers.is_answering(0, kNow + std::chrono::seconds(4) + kAnswerTail));
  CHECK(answers.count(0, 160, kNow + std::chrono::seconds(6)) == 110);
}

TEST_CASE("a rank may be queried again before its time is over") {
  AnswerOutput answers;
  answers.asked(0, 10, kNow);
  answers.asked(0, 15, kNow + std::chrono::seconds(9));
  CHECK(answers.count(0, 30, kNow + std::chrono::seconds(15)) == 10);
  CHECK(answers.count(0, 31, kNow + std::chrono::seconds(30)) == 11);
  answers.clear();
  CHECK(answers.count(0, 5, kNow) == 5);
}

TEST_CASE("a counter that restarts, as after a change of reader, never falls below zero") {
  AnswerOutput answers;
  answers.asked(0, 10, kNow);
  CHECK(answers.count(0, 50, kNow) == 10);
  CHECK(answers.count(0, 3, kNow) == 0);
}

}  // namespace muster::hang
