// SPDX-License-Identifier: Apache-2.0
// Many jobs with two nodes, whose ranks are read at different times: a slow rank is reported as
// quickly as on one node, and if all ranks are equally fast, none is reported.
#include "support/catch.hpp"
#include "support/seed.hpp"
#include "two_nodes.hpp"

#include <fmt/core.h>

#include <variant>

namespace muster::straggler {
namespace {

constexpr int kJobs = 1000;

JobShape draw_steady(testing::Dice& dice) {
  JobShape shape{.ranks = 4, .step = 0.01};
  shape.noise = 0.01 * static_cast<double>(dice.below(6));
  shape.tells_steps = dice.below(2) == 0;
  return shape;
}

}  // namespace

TEST_CASE("job waits: one hundred short steps suffice if ranks are steady", "[slow]") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value());
  int named = 0;
  for (int i = 0; i < kJobs; ++i) {
    const JobShape shape = draw_steady(dice);
    TwoNodes nodes{.job = SimulatedJob(shape, dice.below(~0ULL)), .each = 0.1};
    const auto slow = static_cast<std::size_t>(dice.below(4));
    nodes.job.slow_down(slow, 0.5 + 0.25 * static_cast<double>(dice.below(7)));
    nodes.play(30);
    INFO("job " << i << ": noise " << shape.noise << ", rank " << slow);
    REQUIRE(nodes.effects.size() == 1);
    REQUIRE(std::get<Named>(nodes.effects.front()).slow.ranks ==
            std::vector<int>{static_cast<int>(slow)});
    named += nodes.job.steps() <= 100 ? 1 : 0;
  }
  WARN(fmt::format("{} of {} within 100 steps; {}", named, kJobs, seed.describe()));
  REQUIRE(named >= kJobs * 97 / 100);
}

TEST_CASE("job waits: if all ranks are alike none is reported, however noisy the machine",
          "[slow]") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value() + 1);
  for (int i = 0; i < kJobs; ++i) {
    JobShape shape = draw_steady(dice);
    shape.step = 0.01 * static_cast<double>(1 + dice.below(5));
    shape.noise = 0.1 * static_cast<double>(dice.below(6));
    shape.drift = 0.1 * static_cast<double>(dice.below(6));
    shape.drift_lasts = 0.05 * static_cast<double>(1 + dice.below(10));
    TwoNodes nodes{.job = SimulatedJob(shape, dice.below(~0ULL)), .each = 0.1};
    nodes.play(60);
    INFO("job " << i << ": steps of " << shape.step << " s, noise " << shape.noise << ", drift "
                << shape.drift << " for " << shape.drift_lasts << " s");
    REQUIRE(nodes.effects.empty());
  }
}

}  // namespace muster::straggler
