// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/preemption_texts.hpp"

#include "support/catch.hpp"

#include <limits>
#include <string>

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("preemption texts: notices, steps and decisions survive the trip to another node") {
  const PreemptionNotice notice{"SIGTERM from pid 12", 29'500ms};
  CHECK(encode(notice) == "29500 SIGTERM from pid 12");
  CHECK(decode_notice(encode(notice)) == notice);
  for (const ReportedStep step : {ReportedStep(), ReportedStep(0), ReportedStep(1ULL << 63U)}) {
    CHECK(decode_step(encode(step)) == step);
    const PreemptionDecision decision{notice, step};
    CHECK(decode_decision(encode(decision)) == decision);
  }
  CHECK(decode_notice("0 ") == PreemptionNotice{});
  CHECK(encode(PreemptionNotice{"x", -1s}) == "0 x");
}

TEST_CASE("preemption texts: what another node makes up is refused or made harmless") {
  for (const std::string text :
       {"", " ", "x", "-1 x", "1.5 x", "99999999999999999999 x", "604800001 a week and 1 ms"}) {
    INFO(text);
    CHECK_FALSE(decode_notice(text));
    CHECK_FALSE(decode_decision("7 " + text));
  }
  CHECK_FALSE(decode_decision("x 30 y"));
  CHECK_FALSE(decode_decision(""));
  CHECK_FALSE(decode_step("7x"));
  CHECK(decode_notice("30 a\x1b[2Jb")->why.find('\x1b') == std::string::npos);
  CHECK(decode_notice("30 " + std::string(5000, 'x'))->why.size() < 300);
}

TEST_CASE("preemption texts: ranks save one step after the highest one that a rank has reported") {
  CHECK(save_step({3, std::nullopt, 7, 5}) == 8);
  CHECK_FALSE(save_step({}));
  CHECK_FALSE(save_step({std::nullopt, std::nullopt}));
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  CHECK(save_step({kMost}) == kMost);
}
