// SPDX-License-Identifier: Apache-2.0
// Scores the judgement of failures against each part of the corpus (README.md).
#include "agent/failures/failure_history.hpp"
#include "judgement/case_file.hpp"
#include "support/catch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace muster;

namespace {

constexpr double kRightMin = 0.95;
constexpr double kFalseStopsMax = 0.005;

struct Score {
  std::size_t cases = 0;
  std::size_t right = 0;
  std::size_t false_stops = 0;

  [[nodiscard]] double right_part() const {
    return static_cast<double>(right) / static_cast<double>(cases);
  }

  [[nodiscard]] double false_part() const {
    return static_cast<double>(false_stops) / static_cast<double>(cases);
  }
};

Judgement judge(const FailureCase& given) {
  FailureHistory history;
  for (const auto& round : given.rounds) {
    history.begin_round(given.world_size);
    for (const WorkerFailure& failure : round) {
      history.note(failure);
    }
    for (const std::string& line : given.kernel_log) {  // covers all rounds
      history.note_kernel_log(line);
    }
  }
  return history.judge();
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".case") {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

void note(Score& score, const FailureCase& given) {
  const Judgement judged = judge(given);
  const std::string advice(name_of(judged.advice));
  ++score.cases;
  if (advice == given.verdict) {
    ++score.right;
    return;
  }
  score.false_stops += judged.advice == Advice::stop ? 1U : 0U;
  fmt::print("wrong: {}: {} ({}), labelled {} ({}){}{}\n",
             given.name,
             advice,
             name_of(judged.cause),
             given.verdict,
             given.cause,
             judged.text.empty() ? "" : ": ",
             judged.text);
}

Score score_of(const std::string& part) {
  Score score;
  for (const std::string& file : files_of(MUSTER_CORPUS "/" + part)) {
    const auto given = read_case(file);
    INFO((given ? std::string() : given.error().message));
    REQUIRE(given);
    note(score, *given);
  }
  REQUIRE(score.cases > 0);
  fmt::print("{}: {} cases, {:.1f} % right, {:.1f} % false stops\n",
             part,
             score.cases,
             100 * score.right_part(),
             100 * score.false_part());
  std::fflush(stdout);
  return score;
}

}  // namespace

TEST_CASE("corpus: judges at least 95 % of each part correctly, and almost never stops wrongly") {
  for (const std::string part : {"first", "second", "third"}) {
    const Score score = score_of(part);
    CHECK(score.right_part() >= kRightMin);
    CHECK(score.false_part() <= kFalseStopsMax);
  }
}
