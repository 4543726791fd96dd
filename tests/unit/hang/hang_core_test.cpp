// SPDX-License-Identifier: Apache-2.0
#include "hang/hang_core.hpp"

#include "support/catch.hpp"

#include <optional>
#include <variant>
#include <vector>

namespace muster::hang {
namespace {

using std::chrono::seconds;

// Two ranks and a clock; polls every second, like the shell.
struct Bench {
  explicit Bench(std::optional<Duration> limit, bool sees_output = false)
      : core({.limit = limit, .sees_output = sees_output}) {
    core.begin(now, {0, 1});
  }

  std::vector<HangEffect> look() {
    now += seconds(1);
    std::vector<HangEffect> out;
    core.looked(now, {zero, one}, out);
    return out;
  }

  // Polls this many times without any change. Returns the effects of the last poll.
  std::vector<HangEffect> quiet_for(int looks) {
    std::vector<HangEffect> out;
    for (int i = 0; i < looks; ++i) {
      out = look();
    }
    return out;
  }

  std::vector<HangEffect> judged(Cause cause, int rank) {
    std::vector<HangEffect> out;
    Verdict verdict;
    verdict.cause = cause;
    verdict.ranks = {rank};
    core.judged(now, verdict, out);
    return out;
  }

  TimePoint now{seconds(1000)};
  HangCore core;
  Sample zero{.rank = 0};
  Sample one{.rank = 1};
};

template <class Effect>
bool is_one(const std::vector<HangEffect>& effects) {
  return effects.size() == 1 && std::holds_alternative<Effect>(effects.front());
}

Bench with_operations() {
  Bench bench(seconds(10));
  bench.zero.operations = 5;
  bench.one.operations = 5;
  bench.look();
  return bench;
}

}  // namespace

TEST_CASE("quiet for the limit, ranks are inspected once and the verdict is announced") {
  Bench bench = with_operations();
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(bench.look().empty());  // the inspection is in progress
  const auto effects = bench.judged(Cause::sleeps, 1);
  REQUIRE(is_one<Announce>(effects));
  REQUIRE(std::get<Announce>(effects.front()).verdict.ranks == std::vector{1});
  REQUIRE(bench.quiet_for(100).empty());  // said once
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("what went on during the inspection has not hung") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(bench.look().empty());
  REQUIRE(bench.judged(Cause::sleeps, 1).empty());
}

TEST_CASE("who writes much is slow, not hung, until ten limits are over") {
  Bench bench = with_operations();
  bench.one.io_bytes = 0;
  for (int second = 1; second < 10 * 10; ++second) {
    *bench.one.io_bytes += 1 << 20;
    const auto effects = bench.look();
    if (is_one<Inspect>(effects)) {
      REQUIRE(bench.judged(Cause::blocked_io, 1).empty());
    }
  }
  *bench.one.io_bytes += 1 << 20;
  bench.now += seconds(5);
  bench.look();
  REQUIRE(is_one<Announce>(bench.judged(Cause::blocked_io, 1)));
}

TEST_CASE("a few bytes a second are no sign of life") {
  Bench bench = with_operations();
  bench.one.io_bytes = 0;
  for (int second = 1; second < 10; ++second) {
    *bench.one.io_bytes += 8;
    REQUIRE(bench.look().empty());
  }
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(is_one<Announce>(bench.judged(Cause::sleeps, 1)));
}

TEST_CASE("who is stopped by a signal is not slow") {
  Bench bench = with_operations();
  bench.one.output = 0;
  for (int second = 1; second < 10; ++second) {
    ++*bench.one.output;
    bench.look();
  }
  bench.look();
  REQUIRE(is_one<Announce>(bench.judged(Cause::stopped, 1)));
}

TEST_CASE("CPU time counts before the first step or operation only") {
  Bench bench(seconds(10));
  bench.zero.output = 5;
  bench.one.output = 5;
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  for (int second = 1; second <= 12; ++second) {
    bench.one.cpu_seconds += 0.9;
    bench.look();
  }
  REQUIRE(bench.judged(Cause::spinning, 1).empty());
  bench.zero.operations = bench.one.operations = 1;
  for (int second = 1; second <= 12; ++second) {
    bench.one.cpu_seconds += 0.9;
    bench.look();
  }
  REQUIRE(is_one<Announce>(bench.judged(Cause::spinning, 1)));
}

TEST_CASE("who waits in an operation shows no sign of life by spinning") {
  Bench bench(seconds(10));
  bench.zero.output = 5;
  bench.one.output = 5;
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  for (int second = 1; second <= 12; ++second) {
    bench.zero.cpu_seconds += 0.9;
    bench.look();
  }
  bench.core.waits(0);
  CHECK(bench.core.lifeless(0, bench.now) >= seconds(10));
  REQUIRE(is_one<Announce>(bench.judged(Cause::sleeps, 1)));
}

TEST_CASE("work on an answer is no sign of life, and costs who is slow nothing") {
  const bool busy = GENERATE(false, true);
  Bench bench(seconds(10));
  bench.zero.output = 5;
  bench.one.output = 5;
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  for (int second = 1; second <= 11; ++second) {
    bench.one.cpu_seconds += busy ? 0.9 : 0;
    bench.look();
  }
  bench.one.answers = true;
  for (int second = 1; second <= 12; ++second) {
    bench.one.cpu_seconds += 0.9;
    bench.look();
  }
  bench.core.waits(0);
  CHECK(bench.core.lifeless(1, bench.now) == (busy ? seconds(0) : seconds(11)));
  REQUIRE(bench.judged(Cause::sleeps, 1).empty() == busy);
}

TEST_CASE("who has gone on since it waited may be slow") {
  Bench bench(seconds(10));
  bench.zero.output = 5;
  bench.one.output = 5;
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  bench.look();
  bench.core.waits(0);
  bench.zero.output = 6;
  for (int second = 1; second <= 12; ++second) {
    bench.zero.cpu_seconds += 0.9;
    bench.look();
  }
  REQUIRE(bench.judged(Cause::sleeps, 1).empty());
}

TEST_CASE("auto: an evaluation that only computes is slow, until ten limits are over") {
  Bench bench(std::nullopt);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    bench.zero.steps = step;
    bench.one.steps = step;
    bench.look();
  }
  bench.one.io_bytes = 1;
  const auto evaluate = [&](int looks) {
    for (int i = 0; i < looks; ++i) {
      bench.one.cpu_seconds += 0.9;
      bench.look();
    }
  };
  evaluate(50);
  REQUIRE(bench.core.limit() == kAutoLimitMin);
  REQUIRE(bench.judged(Cause::spinning, 1).empty());
  REQUIRE(is_one<Announce>(bench.judged(Cause::spinning, 0)));
  evaluate(60);
  REQUIRE(is_one<Announce>(bench.judged(Cause::spinning, 1)));
}

TEST_CASE("where only rank 0 prints its lines are progress of all") {
  Bench bench(seconds(10));
  bench.zero.output = 0;
  for (int second = 0; second < 100; ++second) {
    ++*bench.zero.output;
    REQUIRE(bench.look().empty());
  }
}

TEST_CASE("auto is three times the longest interval, after five steps") {
  Bench bench(std::nullopt);
  bench.zero.steps = bench.one.steps = 0;
  REQUIRE(bench.core.limit() == kStartLimit);
  for (int step = 1; step <= 6; ++step) {
    bench.quiet_for(step == 4 ? 19 : 4);
    ++*bench.zero.steps;
    ++*bench.one.steps;
    bench.look();
  }
  REQUIRE(bench.core.limit() == seconds(60));
  for (std::size_t step = 0; step < kIntervalsKept; ++step) {
    ++*bench.zero.steps;
    ++*bench.one.steps;
    bench.look();
  }
  REQUIRE(bench.core.limit() == kAutoLimitMin);  // the long one is forgotten
}

TEST_CASE("before five steps auto waits for half an hour") {
  Bench bench(std::nullopt);
  bench.zero.steps = bench.one.steps = 1;
  bench.look();
  REQUIRE(bench.quiet_for(1700).empty());
  REQUIRE(is_one<Inspect>(bench.quiet_for(100)));
}

TEST_CASE("a job that goes on at step 10000 has made one step") {
  Bench bench(std::nullopt);
  for (std::uint64_t step = 10000; step < 10000 + kStepsFirst; ++step) {
    REQUIRE(bench.core.limit() == kStartLimit);
    bench.zero.steps = bench.one.steps = step;
    bench.look();
  }
  REQUIRE(bench.core.limit() == kAutoLimitMin);
}

TEST_CASE("a program of which nothing is seen is told so once and never judged") {
  Bench bench(seconds(10));
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<SayBlind>(bench.look()));
  REQUIRE(bench.quiet_for(1000).empty());
}

TEST_CASE("the user is not told that nothing is seen while the program may be importing") {
  Bench bench(seconds(10));
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  for (int second = 1; second < 60; ++second) {
    bench.one.cpu_seconds += 0.9;
    REQUIRE(bench.look().empty());
  }
  bench.one.cpu_seconds += 0.9;
  REQUIRE(is_one<SayBlind>(bench.look()));
  REQUIRE(bench.quiet_for(1000).empty());
}

TEST_CASE("where all output is seen, silence since the start is no progress") {
  Bench bench(seconds(10), true);
  bench.zero.output = bench.one.output = 0;
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(is_one<Announce>(bench.judged(Cause::sleeps, 1)));
  Bench automatic(std::nullopt, true);  // the user set no limit
  REQUIRE(is_one<SayBlind>(automatic.quiet_for(600)));
}

TEST_CASE("auto: a program may compile for minutes before anything is seen of it") {
  Bench bench(std::nullopt);
  REQUIRE(bench.quiet_for(599).empty());
  REQUIRE(is_one<SayBlind>(bench.look()));
}

TEST_CASE("a place for output is no source before something is printed there") {
  Bench bench(seconds(10));
  bench.zero.output = bench.one.output = 0;
  REQUIRE(is_one<SayBlind>(bench.quiet_for(10)));
  REQUIRE(bench.quiet_for(100).empty());
  ++*bench.one.output;
  REQUIRE(bench.look().empty());
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
}

TEST_CASE("who was stopped together with us has not hung") {
  Bench bench = with_operations();
  bench.now += std::chrono::hours(8);
  REQUIRE(bench.look().empty());
  REQUIRE(bench.quiet_for(8).empty());
  REQUIRE(is_one<Inspect>(bench.quiet_for(1)));
}

TEST_CASE("nothing is looked at when no rank is left") {
  Bench bench = with_operations();
  bench.core.rank_ended(0);
  REQUIRE(bench.core.is_watching());
  bench.core.rank_ended(1);
  REQUIRE(bench.look().empty());
  REQUIRE(!bench.core.next_look());
}

TEST_CASE("a verdict on all nodes is announced, and not asked for again") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  bench.core.told(bench.now, Verdict{});
  REQUIRE(bench.quiet_for(100).empty());
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("a verdict that does not count is asked for again a little later") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  bench.core.told(bench.now, std::nullopt);
  REQUIRE(bench.quiet_for(2).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
}

TEST_CASE("a verdict that comes before the limit has passed here is over when the ranks go on") {
  Bench bench = with_operations();
  REQUIRE(bench.quiet_for(5).empty());
  bench.core.told(bench.now, Verdict{});
  REQUIRE(bench.quiet_for(3).empty());
  ++bench.zero.operations.value();
  REQUIRE(bench.look().empty());  // the other one does not
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("who hears nothing of a verdict asks again") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  REQUIRE(bench.quiet_for(29).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
}

TEST_CASE("of workers that are not watched nobody hears a verdict") {
  Bench bench = with_operations();
  bench.core.end();
  bench.core.told(bench.now, Verdict{});
  bench.core.begin(bench.now, {0, 1});
  REQUIRE(is_one<Inspect>(bench.quiet_for(11)));
}

}  // namespace muster::hang
