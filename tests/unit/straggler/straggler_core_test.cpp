// SPDX-License-Identifier: Apache-2.0
#include "straggler/straggler_core.hpp"

#include "simulated_job.hpp"
#include "support/catch.hpp"

#include <variant>

namespace muster::straggler {
namespace {

// This many polls, one second apart; in each, every rank waits as long as specified here.
struct Looks {
  StragglerCore core;
  std::vector<StragglerEffect> effects;
  std::vector<RankWaits> ranks;
  TimePoint now{std::chrono::hours(1)};

  explicit Looks(int count) {
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back({.rank = rank, .step = std::nullopt, .groups = {{.group = "world"}}});
    }
    look();
  }

  void look() { core.looked(now, ranks, effects); }

  void seconds(int count, const std::vector<double>& shares, std::uint64_t operations = 10) {
    for (int i = 0; i < count; ++i) {
      now += std::chrono::seconds(1);
      for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        GroupWaits& waits = ranks[rank].groups.front();
        waits.operations += operations;
        waits.waits += operations;
        waits.waited += SimulatedJob::of_seconds(shares[rank]);
      }
      look();
    }
  }

  [[nodiscard]] std::vector<int> named() const {
    REQUIRE(effects.size() == 1);
    return std::get<Named>(effects.front()).slow.ranks;
  }
};

}  // namespace

TEST_CASE("straggler: reports a rank that does not wait once, with its share") {
  Looks looks(4);
  looks.seconds(7, {0.3, 0.31, 0.01, 0.32});
  REQUIRE(looks.effects.empty());
  looks.seconds(100, {0.3, 0.31, 0.01, 0.32});
  REQUIRE(looks.named() == std::vector<int>{2});
  REQUIRE(std::get<Named>(looks.effects.front()).slow.share == Approx(0.29));
  REQUIRE(looks.core.named());
}

TEST_CASE("straggler: reports the cost per step even if the first block had no steps yet") {
  Looks looks(2);
  looks.seconds(1, {0.4, 0.1});
  for (std::uint64_t step = 0; looks.effects.empty(); step += 10) {
    REQUIRE(step < 1000);
    looks.ranks[0].step = looks.ranks[1].step = step;
    looks.seconds(1, {0.4, 0.1});
  }
  const Slow& slow = std::get<Named>(looks.effects.front()).slow;
  REQUIRE(slow.share == Approx(0.3));
  REQUIRE(slow.step_seconds.has_value());
  REQUIRE(*slow.step_seconds == Approx(0.1));
  REQUIRE(*slow.lost_seconds == Approx(0.03));
}

TEST_CASE("straggler: a tenth of the time is not reported yet") {
  Looks looks(4);
  looks.seconds(100, {0.12, 0.12, 0.03, 0.12});
  REQUIRE(looks.effects.empty());
}

TEST_CASE("straggler: reports two of four together; the cost is that of the slower one") {
  Looks looks(4);
  looks.seconds(20, {0.5, 0.05, 0.1, 0.5});
  REQUIRE(looks.named() == std::vector<int>{1, 2});
  REQUIRE(std::get<Named>(looks.effects.front()).slow.share == Approx(0.45));
}

TEST_CASE("straggler: never reports more than half of the ranks as slow") {
  // Two of three wait for no other rank: the third one is fast.
  Looks looks(3);
  looks.seconds(100, {0.0, 0.01, 0.4});
  REQUIRE(looks.effects.empty());
}

TEST_CASE("straggler: a single long wait is not enough") {
  Looks looks(2);
  looks.seconds(3, {0.01, 0.02});
  looks.now += std::chrono::seconds(30);  // rank 0 writes a checkpoint
  looks.ranks[1].groups.front().waited += std::chrono::seconds(30);
  looks.seconds(20, {0.01, 0.02});
  REQUIRE(looks.effects.empty());
}

TEST_CASE("straggler: ranks that take turns being slow are not reported") {
  Looks looks(2);
  for (int i = 0; i < 30; ++i) {
    looks.seconds(3, {0.4, 0.0});
    looks.seconds(3, {0.0, 0.4});
  }
  REQUIRE(looks.effects.empty());
}

TEST_CASE("straggler: reports when the others no longer wait, and reports again after a while") {
  Looks looks(3);
  looks.seconds(10, {0.3, 0.3, 0.0});
  looks.seconds(10, {0.02, 0.02, 0.0});
  REQUIRE(looks.effects.size() == 2);
  REQUIRE(std::get<Over>(looks.effects.back()) == Over{{2}});
  REQUIRE(!looks.core.named());
  looks.seconds(60, {0.3, 0.3, 0.0});
  REQUIRE(looks.effects.size() == 2);
  looks.seconds(600, {0.3, 0.3, 0.0});
  REQUIRE(looks.effects.size() == 3);
}

TEST_CASE("straggler: reports another rank after a minute") {
  Looks looks(3);
  looks.seconds(20, {0.3, 0.3, 0.0});
  looks.seconds(100, {0.0, 0.3, 0.3});
  REQUIRE(std::get<Named>(looks.effects.back()).slow.ranks == std::vector<int>{0});
}

TEST_CASE("straggler: steps of ten seconds are enough, too") {
  SimulatedJob job({.ranks = 4, .step = 10, .operations = 1, .tells_steps = true}, 1);
  job.slow_down(1, 0.5);
  StragglerCore core;
  const Seen seen = watch(job, core, 100 * 15);
  REQUIRE(std::get<Named>(seen.effects.at(0)).slow.ranks == std::vector<int>{1});
  REQUIRE(seen.steps <= 100);
  REQUIRE(*core.named()->step_seconds == Approx(15).epsilon(0.02));
  REQUIRE(*core.named()->lost_seconds == Approx(5).epsilon(0.02));
}

TEST_CASE("straggler: does not compare ranks without common operations") {
  Looks looks(4);
  for (const int rank : {2, 3}) {
    looks.ranks[static_cast<std::size_t>(rank)].groups.front().group = "other";
  }
  looks.seconds(100, {0.3, 0.31, 0.01, 0.012});
  REQUIRE(looks.effects.empty());
}

TEST_CASE("straggler: groups that share a rank count as one") {
  Looks looks(3);
  looks.ranks[2].groups.front().group = "other";
  looks.ranks[1].groups.push_back({.group = "other"});
  for (int i = 0; i < 20; ++i) {
    ++looks.ranks[1].groups.back().operations;
    looks.seconds(1, {0.3, 0.3, 0.01});
  }
  REQUIRE(looks.named() == std::vector<int>{2});
}

TEST_CASE("straggler: a rank without operations slows down no other rank") {
  Looks looks(3);
  for (int i = 0; i < 20; ++i) {
    looks.seconds(1, {0.1, 0.11});
  }
  REQUIRE(looks.effects.empty());
  REQUIRE(looks.core.shares().count(2) == 0);
}

TEST_CASE("straggler: invalid numbers from a program do no harm") {
  Looks looks(2);
  looks.seconds(5, {0.1, 0.1});
  looks.ranks[0].groups.front().waited = Duration::max();
  looks.look();
  looks.ranks[0].groups.front() = {.group = "world", .operations = 1, .waits = ~0ULL};
  looks.ranks[0].step = ~0ULL;
  looks.look();
  looks.ranks[0].step = 0;
  looks.seconds(5, {0.1, 0.1});
  for (int i = 0; i < 20; ++i) {  // steps whose sum is 0
    looks.ranks[0].step = *looks.ranks[0].step + (1ULL << 63U);
    looks.now += std::chrono::milliseconds(100);
    looks.ranks[1].groups.front().operations += 5;
    looks.look();
  }
  REQUIRE(looks.effects.empty());
  for (const auto& [rank, share] : looks.core.shares()) {
    REQUIRE(share >= 0);
    REQUIRE(share <= 1);
  }
}

TEST_CASE("straggler: polls ranks as often as their steps require") {
  StragglerCore core;
  CHECK(core.look_after(kStart) == kLookMin);  // they may be about to start
  CHECK(core.look_after(kStart + Duration(1)) == kLookMax);
  const auto after = [](double step) {
    SimulatedJob job({.ranks = 2, .step = step}, 7);
    StragglerCore of_job;
    CHECK(watch(job, of_job, 30 * step + 1).effects.empty());
    return of_job.look_after(kStart * 2);
  };
  CHECK(after(0.001) == kLookMin);
  CHECK(seconds(after(0.1)) == Approx(0.5).epsilon(0.2));
  CHECK(after(2) == kLookMax);
}

TEST_CASE("straggler: another attempt starts from scratch") {
  Looks looks(2);
  looks.seconds(20, {0.3, 0.0});
  looks.core.begin();
  REQUIRE(!looks.core.named());
  REQUIRE(looks.core.shares().empty());
  looks.seconds(8, {0.3, 0.0});
  REQUIRE(looks.effects.size() == 1);
  looks.seconds(1, {0.3, 0.0});
  REQUIRE(looks.effects.size() == 2);
}

TEST_CASE("straggler: each rank's wait time over the last seconds") {
  Looks looks(2);
  looks.seconds(5, {0.25, 0.05});
  REQUIRE(looks.core.shares().at(0) == Approx(0.25));
  REQUIRE(looks.core.shares().at(1) == Approx(0.05));
}

}  // namespace muster::straggler
