// SPDX-License-Identifier: Apache-2.0
// Thousands of random jobs: if all ranks are alike, none may be reported, however noisy the
// machine. A slow rank must be reported, and no other.
#include "simulated_job.hpp"
#include "straggler/lateness.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <fmt/core.h>

#include <map>
#include <variant>

namespace muster::straggler {
namespace {

constexpr int kJobs = 3000;

JobShape draw_shape(testing::Dice& dice) {
  static constexpr int kRanks[] = {2, 2, 3, 4, 8, 16};
  static constexpr double kSteps[] = {0.01, 0.02, 0.1, 0.4, 2};
  static constexpr int kOperations[] = {1, 1, 4};
  JobShape shape;
  shape.ranks = kRanks[dice.below(std::size(kRanks))];
  shape.step = kSteps[dice.below(std::size(kSteps))];
  shape.operations = kOperations[dice.below(std::size(kOperations))];
  shape.tells_steps = dice.below(2) == 0;
  return shape;
}

std::string text_of(const JobShape& shape) {
  return fmt::format("{} ranks, steps of {} s with {} operations, noise {}, drift {} for {} s",
                     shape.ranks,
                     shape.step,
                     shape.operations,
                     shape.noise,
                     shape.drift,
                     shape.drift_lasts);
}

}  // namespace

TEST_CASE("straggler: if all ranks are alike none is reported, however noisy the machine",
          "[slow]") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value());
  for (int i = 0; i < kJobs; ++i) {
    JobShape shape = draw_shape(dice);
    shape.noise = 0.1 * static_cast<double>(dice.below(6));
    shape.drift = 0.1 * static_cast<double>(dice.below(6));
    shape.drift_lasts = 0.05 * static_cast<double>(1 + dice.below(10));
    SimulatedJob job(shape, dice.below(~0ULL));
    StragglerCore core;
    const Seen seen = watch(job, core, std::max(60.0, 150 * shape.step));
    INFO("job " << i << ": " << text_of(shape));
    REQUIRE(seen.effects.empty());
  }
}

TEST_CASE("straggler: reports a slow rank within a hundred steps, with its cost", "[slow]") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value() + 1);
  int named = 0;
  int right_cost = 0;
  for (int i = 0; i < kJobs; ++i) {
    JobShape shape = draw_shape(dice);
    shape.noise = 0.01 * static_cast<double>(dice.below(11));
    shape.drift = 0.01 * static_cast<double>(dice.below(6));
    const auto slow = static_cast<std::size_t>(dice.below(static_cast<std::uint64_t>(shape.ranks)));
    const double extra = 0.25 + 0.25 * static_cast<double>(dice.below(8));
    const std::uint64_t job_seed = dice.below(~0ULL);
    SimulatedJob alike(shape, job_seed);
    shape.keeps_calls = true;
    SimulatedJob job(shape, job_seed);
    job.slow_down(slow, extra);
    std::map<pid_t, int> pids;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      pids[rank] = rank;
    }
    StragglerCore core;
    const Seen seen = watch(job, core, std::max(11.0, 100 * shape.step * (1 + extra)));
    INFO("job " << i << ": " << text_of(shape) << ", rank " << slow << " slower by " << extra);
    if (seen.effects.empty()) {
      continue;
    }
    ++named;
    const auto& found = std::get<Named>(seen.effects.front()).slow;
    REQUIRE(found.ranks == std::vector<int>{static_cast<int>(slow)});
    REQUIRE((seen.steps <= 100 || seen.at <= 11));
    REQUIRE(found.step_seconds.has_value() == shape.tells_steps);
    // Compared with the same job in which that rank is like the others.
    while (alike.steps() < job.steps()) {
      alike.operate();
    }
    const double lost = 1 - alike.now() / job.now();
    const double own = own_share(job.logs(), pids, found.ranks).value_or(1);
    right_cost += std::abs(own * found.share - lost) <= 0.2 * lost ? 1 : 0;
  }
  WARN(fmt::format(
      "named {} of {}, cost within 20 % in {}; {}", named, kJobs, right_cost, seed.describe()));
  REQUIRE(named >= kJobs * 97 / 100);
  REQUIRE(right_cost >= named * 90 / 100);
}

TEST_CASE("straggler: one hundred short steps suffice if ranks are steady", "[slow]") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value() + 2);
  constexpr int kSteady = 500;
  int named = 0;
  for (int i = 0; i < kSteady; ++i) {
    JobShape shape = draw_shape(dice);
    shape.step = 0.01;
    shape.noise = 0.01 * static_cast<double>(dice.below(6));
    const auto slow = static_cast<std::size_t>(dice.below(static_cast<std::uint64_t>(shape.ranks)));
    SimulatedJob job(shape, dice.below(~0ULL));
    job.slow_down(slow, 0.5 + 0.25 * static_cast<double>(dice.below(7)));
    StragglerCore core;
    const Seen seen = watch(job, core, 30);
    INFO("job " << i << ": " << text_of(shape) << ", rank " << slow);
    REQUIRE(seen.effects.size() == 1);
    REQUIRE(std::get<Named>(seen.effects.front()).slow.ranks ==
            std::vector<int>{static_cast<int>(slow)});
    named += seen.steps <= 100 ? 1 : 0;
  }
  WARN(fmt::format("{} of {} within 100 steps; {}", named, kSteady, seed.describe()));
  REQUIRE(named >= kSteady * 95 / 100);
}

}  // namespace muster::straggler
