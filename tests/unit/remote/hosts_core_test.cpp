// SPDX-License-Identifier: Apache-2.0
#include "remote/hosts_core.hpp"

#include "support/catch.hpp"

#include <csignal>

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{};
constexpr auto kGrace = 30s;

// A core with hosts a, b, c, …, and its effects as words: "start", "signal 15", "error: …",
// "close", "finish 3".
struct Trial {
  explicit Trial(std::size_t count, std::size_t min = 0) : core(settings(count, min), kStart) {}

  static HostsCoreSettings settings(std::size_t count, std::size_t min) {
    HostsCoreSettings out;
    for (std::size_t i = 0; i < count; ++i) {
      out.names.emplace_back(1, static_cast<char>('a' + i % 26));
    }
    out.nodes_min = min == 0 ? count : min;
    out.grace = kGrace;
    out.version = "1";
    return out;
  }

  std::string word(const HostsEffect& effect) {
    if (const auto* passed = std::get_if<hosts_effect::PassSignal>(&effect)) {
      return "signal " + std::to_string(passed->signo);
    }
    if (const auto* said = std::get_if<hosts_effect::Say>(&effect)) {
      return (said->level == LogLevel::warning ? "warning: " : "error: ") + said->text;
    }
    if (const auto* finished = std::get_if<hosts_effect::Finish>(&effect)) {
      return "finish " + std::to_string(finished->code);
    }
    return std::holds_alternative<hosts_effect::StartAll>(effect) ? "start" : "close";
  }

  std::vector<std::string> take() {
    std::vector<std::string> out;
    for (const HostsEffect& effect : std::exchange(effects, {})) {
      out.push_back(word(effect));
    }
    return out;
  }

  void hello(std::size_t host, std::string version = "1") {
    core.hello(now, host, {std::move(version), "", 0}, effects);
  }

  void run_all(std::size_t count) {
    for (std::size_t host = 0; host < count; ++host) {
      hello(host);
    }
    CHECK(take() == std::vector<std::string>{"start"});
  }

  // Waits until the next deadline, but at most this long.
  void wait() {
    now = core.next_deadline().value();
    core.tick(now, effects);
  }

  HostsCore core;
  HostsEffects effects;
  TimePoint now = kStart;
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("hosts core: starts no launcher before all machines have answered") {
  Trial t(2);
  t.hello(1);
  t.hello(1);
  CHECK(t.take().empty());
  t.hello(0);
  CHECK(t.take() == Words{"start"});
  CHECK_FALSE(t.core.next_deadline());
}

TEST_CASE("hosts core: the job is over when the last launcher has exited") {
  Trial t(2);
  t.run_all(2);
  t.core.ended(t.now, 0, 0, t.effects);
  CHECK(t.take().empty());
  t.core.ended(t.now, 1, 0, t.effects);
  CHECK(t.take() == Words{"close"});
  t.core.lost(t.now, 1, "gone", t.effects);
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"finish 0"});
}

TEST_CASE("hosts core: the first nonzero code is the job's") {
  Trial t(3);
  t.run_all(3);
  t.core.ended(t.now, 2, 0, t.effects);
  t.core.ended(t.now, 1, 7, t.effects);
  t.core.ended(t.now, 0, 1, t.effects);
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"close", "finish 7"});
}

TEST_CASE("hosts core: if machines may be missing, only those that ran to the end count") {
  Trial t(3, 2);
  t.run_all(3);
  t.core.ended(t.now, 1, 7, t.effects);
  t.core.ended(t.now, 0, 0, t.effects);
  t.core.ended(t.now, 2, 0, t.effects);
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"close", "finish 0"});
}

TEST_CASE("hosts core: reports unreachable machines together, and starts nothing") {
  Trial t(3);
  t.core.lost(t.now, 1, "b: no route", t.effects);
  t.hello(0);
  CHECK(t.take().empty());
  CHECK(t.core.next_deadline() == kStart + kMoreFailures);
  t.core.lost(t.now, 2, "c: no route", t.effects);
  CHECK(t.take() == Words{"error: b: no route", "error: c: no route", "close"});
  t.hello(2);
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"finish 69"});
}

TEST_CASE("hosts core: after one failure it waits only briefly for the others") {
  Trial t(2);
  t.core.lost(t.now, 1, "b: no route", t.effects);
  t.wait();
  CHECK(t.now == kStart + kMoreFailures);
  CHECK(t.take() == Words{"error: b: no route", "close"});
}

TEST_CASE("hosts core: names a machine that is being retried, with the reason") {
  Trial t(2);
  t.hello(0);
  t.core.retrying(1, "b: no such name");
  CHECK(t.take().empty());
  t.wait();
  CHECK(t.now == kStart + kReachNotice);
  CHECK(t.take() == Words{"warning: waiting for 1 of 2 hosts to answer: b; retrying: b: no "
                          "such name"});
  t.hello(1);
  CHECK(t.take() == Words{"start"});
}

TEST_CASE("hosts core: a permanent failure ends the retries for the others") {
  Trial t(3);
  t.core.retrying(2, "c: refused");
  t.core.lost(t.now, 1, "b: no permission", t.effects);
  t.hello(0);
  t.wait();
  CHECK(t.now == kStart + kMoreFailures);
  CHECK(t.take() == Words{"error: b: no permission", "error: c: refused", "close"});
}

TEST_CASE("hosts core: a second Ctrl-C does not wait for a remote shell that hangs") {
  Trial t(2);
  t.run_all(2);
  t.core.signal(t.now, SIGINT, t.effects);
  CHECK(t.core.next_deadline() == t.now + kGrace + kEndExtra);
  t.core.signal(t.now, SIGINT, t.effects);
  CHECK(t.take() == Words{"signal 2", "signal 2"});
  CHECK(t.core.next_deadline() == t.now + kHurriedEndTimeout);
  t.core.signal(t.now, SIGWINCH, t.effects);
  t.core.ended(t.now, 0, 130, t.effects);
  t.take();
  t.wait();
  CHECK(t.take().back() == "close");
  CHECK(t.core.next_deadline() == t.now + kHurriedCloseTimeout);
  t.wait();
  CHECK(t.take() == Words{"finish 130"});
}

TEST_CASE("hosts core: an interrupted job has the signal's code if no launcher answers") {
  Trial t(1);
  t.run_all(1);
  t.core.signal(t.now, SIGTERM, t.effects);
  t.wait();
  t.core.all_gone(t.effects);
  CHECK(t.take().back() == "finish 143");
}

TEST_CASE("hosts core: truncates a long list of failures") {
  Trial t(20);
  for (std::size_t host = 0; host < 20; ++host) {
    t.core.lost(t.now, host, "down " + std::to_string(host), t.effects);
  }
  const Words words = t.take();
  REQUIRE(words.size() == kNamesShown + 2);
  CHECK(words[kNamesShown] == "error: 12 more hosts cannot be reached");
}

TEST_CASE("hosts core: reports machines that are lost together on one line") {
  Trial t(4, 1);
  t.core.lost(t.now, 1, "b: no route; 1 more behind it", t.effects);
  t.core.lost(t.now, 2, "b: no route; 1 more behind it", t.effects);
  t.hello(0);
  t.hello(3);
  CHECK(t.take() == Words{"error: b: no route; 1 more behind it", "close"});
  Trial running(4, 1);
  running.run_all(4);
  running.core.lost(running.now, 1, "b: broke", running.effects);
  running.core.lost(running.now, 2, "b: broke", running.effects);
  CHECK(running.take() == Words{"warning: b: broke"});
}

TEST_CASE("hosts core: names a machine that does not answer, then gives up") {
  Trial t(3);
  t.hello(1);
  t.wait();
  CHECK(t.now == kStart + kReachNotice);
  CHECK(t.take() == Words{"warning: waiting for 2 of 3 hosts to answer: a, c"});
  t.wait();
  CHECK(t.now == kStart + kReachTimeout);
  CHECK(t.take() == Words{"error: no answer within 60s from a, c: the host may be down, or the "
                          "remote shell may be waiting at a prompt",
                          "close"});
  t.wait();
  CHECK(t.now == kStart + kReachTimeout + kCloseTimeout);
  CHECK(t.take() == Words{"finish 69"});
}

TEST_CASE("hosts core: rejects another version and names both") {
  Trial t(1);
  t.hello(0, "2");
  CHECK(t.take() ==
        Words{"error: a has muster 2, but this host has 1. Use --rsh-muster=PATH to select "
              "a different binary",
              "close"});
}

TEST_CASE("hosts core: a lost machine ends a job that needs all machines") {
  Trial t(3);
  t.run_all(3);
  t.core.lost(t.now, 1, "b: broke", t.effects);
  CHECK(t.take() == Words{"error: b: broke", "signal 15"});
  CHECK(t.core.is_ending());
  t.core.ended(t.now, 0, 143, t.effects);
  t.core.ended(t.now, 2, 143, t.effects);
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"close", "finish 69"});
}

TEST_CASE("hosts core: a lost machine is a warning if the others are enough") {
  Trial t(3, 2);
  t.run_all(3);
  t.core.lost(t.now, 1, "b: broke", t.effects);
  CHECK(t.take() == Words{"warning: b: broke"});
  CHECK_FALSE(t.core.is_ending());
  t.core.lost(t.now, 2, "c: broke", t.effects);
  CHECK(t.take() == Words{"error: c: broke", "signal 15"});
}

TEST_CASE("hosts core: a worker's code takes precedence over the loss of its machine") {
  Trial t(2);
  t.run_all(2);
  t.core.ended(t.now, 0, 7, t.effects);
  t.core.lost(t.now, 1, "b: broke", t.effects);
  t.core.all_gone(t.effects);
  const Words words = t.take();
  CHECK(words.back() == "finish 7");
}

TEST_CASE("hosts core: forwards signals; those that end the job have a deadline") {
  Trial t(2);
  t.run_all(2);
  t.core.signal(t.now, SIGUSR1, t.effects);
  CHECK(t.take() == Words{"signal 10"});
  CHECK_FALSE(t.core.next_deadline());
  t.core.signal(t.now, SIGINT, t.effects);
  t.core.ended(t.now, 0, 130, t.effects);
  CHECK(t.take() == Words{"signal 2"});
  t.wait();
  CHECK(t.now == kStart + kGrace + kEndExtra);
  CHECK(t.take() == Words{"error: b did not stop in time; closing the connection, which kills "
                          "its processes",
                          "close"});
  t.core.all_gone(t.effects);
  CHECK(t.take() == Words{"finish 130"});
}

TEST_CASE("hosts core: a signal before the start ends it at once") {
  Trial t(2);
  t.core.signal(t.now, SIGUSR1, t.effects);
  CHECK(t.take().empty());
  t.core.signal(t.now, SIGTERM, t.effects);
  CHECK(t.take() == Words{"close"});
  SECTION("when the remote shells have exited") {
    t.core.all_gone(t.effects);
  }
  SECTION("at a second signal if the remote shells hang") {
    t.core.signal(t.now, SIGINT, t.effects);
  }
  CHECK(t.take() == Words{"finish 143"});
}

TEST_CASE("hosts core: without its guard it closes all connections") {
  Trial t(2);
  t.run_all(2);
  t.core.guard_lost(t.now, t.effects);
  t.core.guard_lost(t.now, t.effects);
  CHECK(t.take() == Words{"close"});
  t.wait();
  CHECK(t.take() == Words{"finish 137"});
}
