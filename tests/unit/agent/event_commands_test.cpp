// SPDX-License-Identifier: Apache-2.0
// EventCommands: which events start a command, how many run and wait, and what is dropped.
#include "agent/sinks/event_commands.hpp"

#include "support/catch.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace muster;

namespace {

struct Bench {
  std::vector<std::string> inputs;
  std::vector<std::function<void()>> running;
  std::vector<std::string> trouble;
  bool can_start = true;
  EventCommands commands{[this](const auto& input, const auto& ended) -> Result<void> {
                           if (!can_start) {
                             return failure(Errc::not_found, "no shell");
                           }
                           inputs.push_back(input);
                           running.push_back(ended);
                           return {};
                         },
                         [this](const std::string& text) { trouble.push_back(text); }};

  void tell(event::What what) { commands.take(JobEvent{1000, "node1", 1, std::move(what)}); }

  void hang(int number) {
    event::HangOver over;
    over.quiet = number;
    tell(over);
  }

  void end_first() {
    const auto ended = std::move(running.front());
    running.erase(running.begin());
    ended();
  }

  // The number of the event that hang() has told.
  [[nodiscard]] bool has(std::size_t index, int number) const {
    return inputs.at(index).contains("\"quiet\":" + std::to_string(number));
  }
};

}  // namespace

TEST_CASE("event commands: run for events of the job, with their JSON, once it may begin") {
  Bench bench;
  bench.tell(event::JobStarted{});
  CHECK(bench.inputs.empty());
  bench.commands.begin();
  bench.tell(event::WorkerStarted{});
  bench.tell(event::RestartDecided{});
  bench.tell(event::Message{});
  bench.tell(WorkerFailure{});
  bench.tell(event::JobEnded{});
  REQUIRE(bench.inputs.size() == 4);
  std::size_t at = 0;
  for (const auto* name : {"job_started", "restart", "worker_failed", "job_ended"}) {
    const std::string& input = bench.inputs[at++];
    CHECK(input.contains("\"event\":\"" + std::string(name) + "\""));
    CHECK(input.ends_with("}\n"));
  }
  CHECK(runs_command(event::HangFound{}));
  CHECK(runs_command(event::RegroupAsked{}));
  CHECK(bench.trouble.empty());
}

TEST_CASE("event commands: a limited number runs at once, in the order of the events") {
  Bench bench;
  bench.commands.begin();
  for (int i = 0; i < static_cast<int>(kEventCommandsAtOnce) + 2; ++i) {
    bench.hang(i);
  }
  CHECK(bench.inputs.size() == kEventCommandsAtOnce);
  bench.end_first();
  bench.end_first();
  REQUIRE(bench.inputs.size() == kEventCommandsAtOnce + 2);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
    CHECK(bench.has(i, static_cast<int>(i)));
  }
}

TEST_CASE("event commands: the oldest of too many waiting events are dropped and counted") {
  Bench bench;
  bench.commands.begin();
  const int kept = static_cast<int>(kEventCommandsAtOnce + kWaitingEventsMax);
  for (int i = 0; i < kept + 2; ++i) {
    bench.hang(i);
  }
  CHECK(bench.trouble.empty());
  bench.tell(event::JobEnded{});
  CHECK(bench.trouble == std::vector<std::string>{"--on-event: dropped 3 events, because 4 "
                                                  "commands were still running"});
  while (!bench.running.empty()) {
    bench.end_first();
  }
  REQUIRE(bench.inputs.size() == static_cast<std::size_t>(kept));
  CHECK(bench.has(kEventCommandsAtOnce, static_cast<int>(kEventCommandsAtOnce) + 3));
  CHECK(bench.inputs.back().contains("job_ended"));
}

TEST_CASE("event commands: a shell that cannot be started is reported once") {
  Bench bench;
  bench.can_start = false;
  bench.commands.begin();
  bench.hang(1);
  bench.hang(2);
  CHECK(bench.trouble ==
        std::vector<std::string>{"cannot run the command of --on-event: no shell"});
  bool is_idle = false;
  bench.commands.when_idle([&] { is_idle = true; });
  CHECK(is_idle);
}

TEST_CASE("event commands: idle once the last waiting event's command has ended") {
  Bench bench;
  bench.commands.begin();
  int idle = 0;
  for (int i = 0; i < static_cast<int>(kEventCommandsAtOnce) + 1; ++i) {
    bench.hang(i);
  }
  bench.commands.when_idle([&] { ++idle; });
  while (!bench.running.empty()) {
    CHECK(idle == 0);
    bench.end_first();
  }
  CHECK(idle == 1);
}
