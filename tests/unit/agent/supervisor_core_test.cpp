// SPDX-License-Identifier: Apache-2.0
#include "supervisor_bench.hpp"

#include <algorithm>
#include <csignal>
#include <map>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// A core brought into the state by the shortest path.
Bench in_state(State state) {
  Bench bench{state == State::waiting   ? shared_settings()
              : state == State::mending ? elastic_settings()
                                        : settings()};
  if (state == State::joining) {
    return bench;
  }
  bench.start();
  if (state == State::mending) {
    bench.step(WorkerReady{0, 1});
    bench.step(WorkerReady{1, 1});
    bench.exit(0, 1);
    REQUIRE(bench.core.state() == state);
    return bench;
  }
  if (state == State::stopping) {
    bench.exit(0, 1);
  } else if (state != State::running) {
    bench.exit(0, 0);
    bench.exit(1, 0);
  }
  if (state == State::killing) {
    bench.wait(kSelfExitTime);
    bench.wait(30s);
    bench.wait(30s);
  }
  if (state == State::done || state == State::waiting) {
    bench.step(NothingLeft{});
  }
  REQUIRE(bench.core.state() == state);
  return bench;
}

constexpr std::array kStates{State::joining,
                             State::running,
                             State::mending,
                             State::stopping,
                             State::clearing,
                             State::killing,
                             State::waiting,
                             State::done};

// A harmless example of each event, in the order of the variant.
std::vector<SupervisorEvent> example_events(State state) {
  const int spawned = 2;
  return {Started{},
          RoundFormed{2, 0},
          RegroupNotice{"x"},
          WorkerSpawned{spawned, 102},
          SpawnFailed{0, Error{Errc::not_found, "x"}},
          WorkerExited{state == State::stopping ? 1 : 0, std::nullopt},
          GroupsEmpty{},
          NothingLeft{},
          SignalReceived{SIGTERM, 1},
          LinkLost{},
          Tick{},
          Fenced{"x"},
          RoundClosed{Outcome::failed, Close{}, std::nullopt, {}},
          failed(WorkerExit{1, 101, {true, SIGKILL}, false, {}}),
          LeftoversSeen{},
          MendFormed{1, 2},
          MendRefused{1, "x"},
          WorkerReady{1, 1},
          WorkerLeft{1},
          WorkerHeard{1, {}},
          Preempted{"x", {}}};
}

constexpr std::size_t kMendFormed = 15;
constexpr std::size_t kMendRefused = 16;

}  // namespace

TEST_CASE("supervisor core: every cell of the table acts or is declared impossible") {
  const std::map<State, std::vector<std::size_t>> impossible{
      {State::joining, {3, 4, 5, 7, 13, kMendFormed, kMendRefused}},
      {State::running, {0, 1, 7, kMendRefused}},
      {State::mending, {0, 1, 7}},
      {State::stopping, {0, 1, 3, 4, 7}},
      {State::clearing, {0, 1, 3, 4}},
      {State::killing, {0, 1, 3, 4}},
      {State::waiting, {0, 1, 3, 4, 5, 7, 13}},
      {State::done, {0, 1, 3, 4}}};
  for (const State state : kStates) {
    const auto events = example_events(state);
    REQUIRE(events.size() == std::variant_size_v<SupervisorEvent>);
    for (std::size_t i = 0; i < events.size(); ++i) {
      INFO("state " << static_cast<int>(state) << " event " << i);
      CHECK(events[i].index() == i);
      const auto& never = impossible.at(state);
      const bool expected = std::ranges::find(never, i) != never.end();
      CHECK(SupervisorCore::is_impossible(state, i) == expected);
      // Spawn answers arrive only during spawning, and the core checks their order itself.
      const bool spawns = state == State::running || state == State::mending;
      const bool spawn_answer = spawns && (i == 3 || i == 4);
      if (!expected && !spawn_answer) {
        Bench bench = in_state(state);
        std::vector<SupervisorEffect> out;
        bench.core.step(bench.now, events[i], out);
        CHECK_FALSE(bench.core.describe().empty());
      }
    }
  }
}

TEST_CASE("supervisor core: spawns workers one after the other") {
  Bench bench;
  bench.step(Started{});
  REQUIRE(bench.asked<AwaitRound>());
  CHECK(bench.asked<AwaitRound>()->attempt == 0);
  bench.step(RoundFormed{2, 0});
  CHECK(bench.asked<SpawnWorker>()->local_rank == 0);
  bench.step(WorkerSpawned{0, 100});
  CHECK(bench.asked<SpawnWorker>()->local_rank == 1);
  bench.step(WorkerSpawned{1, 101});
  CHECK(bench.effects.empty());
}

TEST_CASE("supervisor core: a worker that exits with 0 while others run changes nothing") {
  Bench bench = in_state(State::running);
  bench.exit(1, 0);
  CHECK(bench.effects.empty());
  CHECK(bench.core.state() == State::running);
  bench.exit(0, 0);
  CHECK(bench.asked<AwaitNothingLeft>());
  CHECK(bench.effects.size() == 3);
  bench.step(NothingLeft{});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 0);
}

TEST_CASE("supervisor core: a failure stops the others, and its code becomes the job's") {
  Bench bench = in_state(State::running);
  bench.exit(1, 7);
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->signo == SIGTERM);
  REQUIRE(std::holds_alternative<ExpectRound>(bench.effects.back()));
  CHECK(std::get<SignalGroups>(bench.effects.at(bench.effects.size() - 2)).signo == SIGCONT);
  CHECK(bench.asked<SignalGroups>()->which == GroupsOf::running_workers);
  const TimePoint until = bench.now + 30s;
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.asked<SignalGroups>()->which == GroupsOf::skipped_workers);
  CHECK(bench.core.next_deadline() == until);
  bench.die(0, SIGTERM);
  bench.step(GroupsEmpty{});
  CHECK(bench.asked<AwaitNothingLeft>());
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::failed);
  CHECK(exit_code_of(bench.core.result()) == 7);
}

TEST_CASE("supervisor core: a failure within the budget restarts all workers in the next attempt") {
  Bench bench{settings(1)};
  bench.start();
  bench.now += 60s;
  bench.exit(0, 3);
  REQUIRE(bench.local->warnings.size() == 1);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  REQUIRE(bench.asked<AwaitRound>());
  CHECK(bench.asked<AwaitRound>()->attempt == 1);
  CHECK(bench.local->rounds.restarts() == 1);
  bench.spawn_all();
  bench.now += 60s;
  bench.exit(0, 4);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(exit_code_of(bench.core.result()) == 4);
  CHECK(bench.core.result().verdict == "all 1 restarts are used up");
}

TEST_CASE("supervisor core: processes that outlive the grace period are killed and named") {
  Bench bench = in_state(State::running);
  bench.exit(1, 7);
  bench.wait(kSelfExitTimeInHurry);
  bench.wait(28s);
  CHECK(bench.effects.empty());
  bench.now += 2s;
  bench.step(Tick{});
  CHECK(bench.asked<KillWorkers>());
  CHECK(bench.core.result().overdue == std::vector<int>{0});
}

TEST_CASE(
    "supervisor core: processes that cannot be killed are named, and the job still ends in time") {
  Bench bench{settings()};
  bench.start();
  bench.exit(1, 7);
  bench.wait(30s);
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<AskLeftovers>());
  bench.wait(kLeftoverGraceMin);
  CHECK(bench.asked<KillWorkers>());
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.asked<KillEverything>());
  bench.wait(kKillTimeout - kSelfExitTimeInHurry);
  CHECK(bench.asked<NameSurvivors>());
  REQUIRE(bench.core.result().survivors.size() == 1);
  CHECK(bench.core.result().survivors.front().pid == 100);
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 7);
  static_assert(kSelfExitTime + kLeftoverGraceMin + kKillTimeout < 5s);
  static_assert(kShmManagerTimeInHurry + kLeftoverGraceMin + kKillTimeout < 5s);
}

TEST_CASE("supervisor core: a signal is forwarded unchanged and determines the exit code") {
  Bench bench = in_state(State::running);
  bench.step(SignalReceived{SIGHUP, 42});
  CHECK(bench.asked<SignalGroups>()->signo == SIGHUP);
  bench.exit(0, 0);
  bench.die(1, SIGHUP);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::interrupted);
  CHECK(bench.core.result().interrupting_sender == 42);
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGHUP);
}

TEST_CASE("supervisor core: a second SIGINT skips the grace period, a duplicate request does not") {
  Bench bench = in_state(State::running);
  bench.step(SignalReceived{SIGINT, 0});
  bench.now += 1ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.effects.empty());
  bench.now += 248ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.effects.empty());
  bench.now += 1ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<KillWorkers>());
  REQUIRE(bench.asked<TellKilledEarly>());
  CHECK(bench.asked<TellKilledEarly>()->local_ranks == std::vector<int>{0, 1});
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.asked<KillEverything>());
}

TEST_CASE("supervisor core: SIGUSR1 is forwarded to the workers and ends nothing") {
  for (const State state : {State::running, State::stopping}) {
    Bench bench = in_state(state);
    bench.step(SignalReceived{SIGUSR1, 1});
    REQUIRE(bench.asked<SignalWorkers>());
    CHECK(bench.effects.size() == 1);
    CHECK(bench.core.state() == state);
  }
}

TEST_CASE("supervisor core: a signal that is not forwarded kills the workers at once") {
  BenchSettings only_term = settings();
  only_term.signals_to_forward = {SIGTERM};
  Bench bench{only_term};
  bench.start();
  bench.step(SignalReceived{SIGINT, 1});
  CHECK(bench.asked<KillWorkers>());
  CHECK_FALSE(bench.asked<SignalGroups>());
}

TEST_CASE("supervisor core: a signal during a restart turns it into an interruption") {
  Bench bench{settings(3)};
  bench.start();
  bench.exit(0, 1);
  bench.step(SignalReceived{SIGTERM, 1});
  CHECK_FALSE(bench.asked<SignalGroups>());  // they have already received SIGTERM
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGTERM);
}

TEST_CASE("supervisor core: a signal just before a restart prevents it") {
  Bench bench{settings(3)};
  bench.start();
  bench.exit(0, 1);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  CHECK(bench.core.next_deadline() == bench.now + kSelfExitTime);
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<AskLeftovers>());
  bench.step(NothingLeft{});
  CHECK_FALSE(bench.asked<AwaitRound>());
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGINT);
}

TEST_CASE("supervisor core: no restart while a process cannot be killed") {
  Bench bench{settings(5)};
  bench.start();
  bench.exit(1, 7);
  bench.wait(30s);
  bench.wait(kKillTimeoutBeforeRestart / 2);
  bench.wait(kLeftoverGraceMin);
  bench.wait(kKillTimeoutBeforeRestart);
  CHECK_FALSE(bench.asked<AwaitRound>());
  CHECK(exit_code_of(bench.core.result()) == 7);
}

TEST_CASE(
    "supervisor core: a signal after the last failure does not change the root cause's code") {
  Bench bench = in_state(State::stopping);
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<SignalGroups>()->signo == SIGINT);
  bench.die(1, SIGINT);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(exit_code_of(bench.core.result()) == 1);
}

TEST_CASE("supervisor core: an exec error ends the job without a restart") {
  Bench bench{settings(9)};
  bench.step(Started{});
  bench.step(RoundFormed{2, 0});
  bench.step(SpawnFailed{0, Error{Errc::not_found, "exec './x': not found"}});
  CHECK(bench.asked<AwaitNothingLeft>());
  bench.step(NothingLeft{});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 127);
}

TEST_CASE("supervisor core: the guard's death makes it kill the workers at once") {
  Bench bench = in_state(State::running);
  bench.step(LinkLost{});
  CHECK(bench.asked<KillWorkers>());
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<AskLeftovers>());
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::orphaned);
}

TEST_CASE(
    "supervisor core: without a grace period it kills workers at once, but not their helpers") {
  Bench bench{settings(0, 0s)};
  bench.start();
  bench.exit(0, 1);
  CHECK(bench.asked<KillWorkers>());
  bench.die(1, SIGKILL);
  CHECK(bench.core.next_deadline() == bench.now + kSelfExitTime);
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<KillEverything>());
}

TEST_CASE("supervisor core: a regroup starts a new attempt and uses up no restart") {
  Bench bench = in_state(State::running);
  bench.step(RegroupNotice{"a node came"});
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  REQUIRE(bench.asked<AwaitRound>());
  CHECK(bench.asked<AwaitRound>()->attempt == 1);
  CHECK(bench.local->rounds.restarts() == 0);
}

TEST_CASE("supervisor core: a round that cannot be formed ends the job with its error") {
  Bench bench;
  bench.step(Started{});
  bench.step(
      RoundClosed{Outcome::not_started, std::nullopt, Error{Errc::unreachable, "no store"}, {}});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 69);
}
