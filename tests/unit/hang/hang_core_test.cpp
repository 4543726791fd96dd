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

  std::optional<Announce> judged(Cause cause, int rank) {
    Verdict verdict;
    verdict.cause = cause;
    verdict.ranks = {rank};
    return core.judged(now, verdict);
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

TEST_CASE(
    "after a quiet period of the limit it inspects the ranks and announces the verdict once") {
  Bench bench = with_operations();
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(bench.look().empty());  // the inspection is in progress
  const auto announced = bench.judged(Cause::sleeps, 1);
  REQUIRE(announced);
  REQUIRE(announced->limit == seconds(10));
  REQUIRE(bench.quiet_for(100).empty());  // announced once
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("ranks that make progress during the inspection have not hung") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(bench.look().empty());
  REQUIRE_FALSE(bench.judged(Cause::sleeps, 1));
}

TEST_CASE("a rank that writes a lot is slow, not hung, until ten limits have passed") {
  Bench bench = with_operations();
  bench.one.io_bytes = 0;
  for (int second = 1; second < 10 * 10; ++second) {
    *bench.one.io_bytes += 1 << 20;
    const auto effects = bench.look();
    if (is_one<Inspect>(effects)) {
      REQUIRE_FALSE(bench.judged(Cause::blocked_io, 1));
    }
  }
  *bench.one.io_bytes += 1 << 20;
  bench.now += seconds(5);
  bench.look();
  REQUIRE(bench.judged(Cause::blocked_io, 1));
}

TEST_CASE("a few bytes per second do not count as activity") {
  Bench bench = with_operations();
  bench.one.io_bytes = 0;
  for (int second = 1; second < 10; ++second) {
    *bench.one.io_bytes += 8;
    REQUIRE(bench.look().empty());
  }
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(bench.judged(Cause::sleeps, 1));
}

TEST_CASE("a rank that is stopped by a signal is not slow") {
  Bench bench = with_operations();
  bench.one.output = 0;
  for (int second = 1; second < 10; ++second) {
    ++*bench.one.output;
    bench.look();
  }
  bench.look();
  REQUIRE(bench.judged(Cause::stopped, 1));
}

TEST_CASE("CPU time counts only before the first step or operation") {
  Bench bench(seconds(10));
  bench.zero.output = 5;
  bench.one.output = 5;
  bench.zero.io_bytes = bench.one.io_bytes = 0;
  for (int second = 1; second <= 12; ++second) {
    bench.one.cpu_seconds += 0.9;
    bench.look();
  }
  REQUIRE_FALSE(bench.judged(Cause::spinning, 1));
  bench.zero.operations = bench.one.operations = 1;
  for (int second = 1; second <= 12; ++second) {
    bench.one.cpu_seconds += 0.9;
    bench.look();
  }
  REQUIRE(bench.judged(Cause::spinning, 1));
}

TEST_CASE("a rank that spins while it waits in an operation is not active") {
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
  REQUIRE(bench.judged(Cause::sleeps, 1));
}

TEST_CASE("CPU time for an answer is not activity, and does not affect a slow rank") {
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
  REQUIRE(bench.judged(Cause::sleeps, 1).has_value() != busy);
}

TEST_CASE("a rank that has made progress since it waited may be slow") {
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
  REQUIRE_FALSE(bench.judged(Cause::sleeps, 1));
}

TEST_CASE("auto: an evaluation that only computes is slow until ten limits have passed") {
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
  REQUIRE_FALSE(bench.judged(Cause::spinning, 1));
  REQUIRE(bench.judged(Cause::spinning, 0));
  evaluate(60);
  REQUIRE(bench.judged(Cause::spinning, 1));
}

TEST_CASE("if only rank 0 prints, its lines are progress of all ranks") {
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

TEST_CASE("a job that resumes at step 10000 has made one step") {
  Bench bench(std::nullopt);
  for (std::uint64_t step = 10000; step < 10000 + kStepsFirst; ++step) {
    REQUIRE(bench.core.limit() == kStartLimit);
    bench.zero.steps = bench.one.steps = step;
    bench.look();
  }
  REQUIRE(bench.core.limit() == kAutoLimitMin);
}

TEST_CASE("a program without visible progress gets one warning and is never judged") {
  Bench bench(seconds(10));
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<SayBlind>(bench.look()));
  REQUIRE(bench.quiet_for(1000).empty());
}

TEST_CASE("no such warning while the program may still be importing modules") {
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

TEST_CASE("if all output is visible, silence since the start is a lack of progress") {
  Bench bench(seconds(10), true);
  bench.zero.output = bench.one.output = 0;
  REQUIRE(bench.quiet_for(9).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
  REQUIRE(bench.judged(Cause::sleeps, 1));
  Bench automatic(std::nullopt, true);  // the user set no limit
  REQUIRE(is_one<SayBlind>(automatic.quiet_for(600)));
}

TEST_CASE("auto: a program may compile for minutes before its first visible progress") {
  Bench bench(std::nullopt);
  REQUIRE(bench.quiet_for(599).empty());
  REQUIRE(is_one<SayBlind>(bench.look()));
}

TEST_CASE("an output file is no source of progress before something is printed to it") {
  Bench bench(seconds(10));
  bench.zero.output = bench.one.output = 0;
  REQUIRE(is_one<SayBlind>(bench.quiet_for(10)));
  REQUIRE(bench.quiet_for(100).empty());
  ++*bench.one.output;
  REQUIRE(bench.look().empty());
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
}

TEST_CASE("ranks that were stopped together with the agent have not hung") {
  Bench bench = with_operations();
  bench.now += std::chrono::hours(8);
  REQUIRE(bench.look().empty());
  REQUIRE(bench.quiet_for(8).empty());
  REQUIRE(is_one<Inspect>(bench.quiet_for(1)));
}

TEST_CASE("does not poll when no rank is left") {
  Bench bench = with_operations();
  bench.core.rank_ended(0);
  REQUIRE(bench.core.is_watching());
  bench.core.rank_ended(1);
  REQUIRE(bench.look().empty());
  REQUIRE(!bench.core.next_look());
}

TEST_CASE("a verdict from all nodes is announced and not requested again") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  bench.core.told(bench.now, Verdict{});
  REQUIRE(bench.quiet_for(100).empty());
  ++bench.zero.operations.value();
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("a verdict that does not count is requested again a little later") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  bench.core.told(bench.now, std::nullopt);
  REQUIRE(bench.quiet_for(2).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
}

TEST_CASE("a verdict that arrives before this node's limit is over when its ranks continue") {
  Bench bench = with_operations();
  REQUIRE(bench.quiet_for(5).empty());
  bench.core.told(bench.now, Verdict{});
  REQUIRE(bench.quiet_for(3).empty());
  ++bench.zero.operations.value();
  REQUIRE(bench.look().empty());  // the other one does not
  ++bench.one.operations.value();
  REQUIRE(is_one<GoesOn>(bench.look()));
}

TEST_CASE("repeats the request if no verdict arrives") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  REQUIRE(bench.quiet_for(29).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
}

TEST_CASE("ignores a verdict while it watches no workers") {
  Bench bench = with_operations();
  bench.core.end();
  bench.core.told(bench.now, Verdict{});
  bench.core.begin(bench.now, {0, 1});
  REQUIRE(is_one<Inspect>(bench.quiet_for(11)));
}

TEST_CASE("while a debugger is attached to a rank, the limit of the whole job pauses") {
  Bench bench = with_operations();
  bench.quiet_for(7);
  bench.zero.debugged = true;
  REQUIRE(bench.quiet_for(1000).empty());
  bench.zero.debugged = false;
  REQUIRE(bench.quiet_for(2).empty());
  REQUIRE(is_one<Inspect>(bench.look()));
}

TEST_CASE("a verdict that arrives while a debugger is attached does not count") {
  Bench bench = with_operations();
  REQUIRE(is_one<Inspect>(bench.quiet_for(10)));
  bench.zero.debugged = true;
  bench.look();
  REQUIRE_FALSE(bench.judged(Cause::stopped, 0));
}

TEST_CASE("while a debugger is attached, a program without a source of progress is no news") {
  Bench bench(seconds(10));
  bench.one.debugged = true;
  REQUIRE(bench.quiet_for(1000).empty());
}

}  // namespace muster::hang
