// SPDX-License-Identifier: Apache-2.0
// The real socket, with this process as the worker of local rank 1.
#include "agent/workers/worker_channel.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"
#include "support/catch.hpp"
#include "worker/channel/progress_page.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr auto kDeadline = std::chrono::seconds(20);

struct Sink final : EventSink {
  std::vector<JobEvent> events;

  void take(const JobEvent& event) override { events.push_back(event); }

  template <class What>
  [[nodiscard]] std::vector<What> all() const {
    std::vector<What> out;
    for (const JobEvent& event : events) {
      if (const auto* what = std::get_if<What>(&event.what)) {
        out.push_back(*what);
      }
    }
    return out;
  }
};

struct Bench {
  asio::io_context loop;
  EventStream events{"node1", wall_now_seconds};
  Sink sink;
  WorkerChannel channel;

  explicit Bench(const std::string& random, std::size_t record_bytes = 0)
      : channel{loop, events, std::chrono::seconds(30), record_bytes} {
    events.add(channel);
    events.add(sink);
    REQUIRE(channel.open(random + std::to_string(::getpid())));
    begin(1);
  }

  void begin(std::uint64_t epoch) {
    event::RoundBegun begun;
    begun.assignment.local_world_size = 2;
    begun.assignment.world_size = 4;
    begun.assignment.rank_first = 2;
    events.set_round(epoch);
    events.tell(begun);
    events.tell(event::WorkerStarted{1, 3, ::getpid()});
  }

  // Runs the loop until the condition is true.
  template <class Done>
  void run_until(Done done) {
    const TimePoint give_up = steady_now() + kDeadline;
    while (!done() && steady_now() < give_up) {
      loop.run_one_for(std::chrono::milliseconds(20));
    }
    REQUIRE(done());
  }
};

struct Caller {
  UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  channel::LineReader lines;
  std::vector<UniqueFd> fds;

  explicit Caller(const Bench& bench) {
    const UnixAddress address = abstract_address(bench.channel.name());
    REQUIRE(::connect(fd.get(), address.raw(), address.size) == 0);
  }

  void send(const std::string& text) const {
    REQUIRE(::send(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }

  void say(const channel::WorkerFrame& frame) const { send(channel::encode(frame)); }

  channel::AgentFrame hear(Bench& bench) {
    const TimePoint give_up = steady_now() + kDeadline;
    while (!lines.has_line()) {
      REQUIRE(steady_now() < give_up);
      bench.loop.run_one_for(std::chrono::milliseconds(5));
      std::array<char, 4096> bytes{};
      ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
      auto got = receive_some_with_fds(fd.get(), bytes);
      lines.feed({bytes.data(), got.bytes});
      for (UniqueFd& one : got.fds) {
        fds.push_back(std::move(one));
      }
    }
    return channel::decode_agent_frame(**lines.next())->value();
  }
};

}  // namespace

TEST_CASE("worker channel: steps in the page count as progress without any event") {
  Bench bench("a");
  Caller caller(bench);
  CHECK(caller.hear(bench) == channel::AgentFrame(channel::Hello{1, 1, 3, 1}));
  REQUIRE(caller.fds.size() == 1);
  auto page = channel::ProgressPage::map(std::move(caller.fds[0]));
  REQUIRE(page);
  CHECK_FALSE(bench.channel.progress()[1].step);
  const TimePoint now = steady_now();
  page->store(118, now);
  const std::vector<channel::Progress> seen = bench.channel.progress();
  REQUIRE(seen.size() == 2);
  CHECK((seen[1].step == 118 && seen[1].time == now));
  CHECK_FALSE(seen[0].step);
  // The next round's worker has its own page; writes to the old page have no effect.
  bench.begin(2);
  page->store(119, steady_now());
  CHECK_FALSE(bench.channel.progress()[1].step);
}

TEST_CASE("worker channel: a record outlives its worker, and not the round") {
  Bench bench("i", 2 * 8192);
  const auto record_of_new_caller = [&bench] {
    Caller caller(bench);
    static_cast<void>(caller.hear(bench));
    REQUIRE(caller.fds.size() == 2);
    return std::move(caller.fds[1]);
  };
  const UniqueFd first = record_of_new_caller();

  struct stat status {};

  REQUIRE(::fstat(first.get(), &status) == 0);
  CHECK((status.st_size == 8192 && status.st_blocks == 0));
  CHECK(::ftruncate(first.get(), 8193) == -1);  // so a worker cannot exceed its share
  REQUIRE(::pwrite(first.get(), "x", 1, 0) == 1);
  bench.events.set_round(2);
  event::RestartDecided restart;
  restart.rank = 3;
  restart.local_rank = 1;
  restart.replaced = {3};
  bench.events.tell(restart);
  bench.events.tell(event::WorkerStarted{1, 3, ::getpid()});
  char read = 0;
  CHECK((::pread(record_of_new_caller().get(), &read, 1, 0) == 1 && read == 'x'));
  bench.begin(3);
  CHECK((::pread(record_of_new_caller().get(), &read, 1, 0) == 1 && read == 0));
}

TEST_CASE("worker channel: all connections of a worker have the same page") {
  Bench bench("b");
  Caller one(bench);
  Caller two(bench);
  static_cast<void>(one.hear(bench));
  static_cast<void>(two.hear(bench));
  auto first = channel::ProgressPage::map(std::move(one.fds.at(0)));
  auto second = channel::ProgressPage::map(std::move(two.fds.at(0)));
  first->store(7, steady_now());
  CHECK(second->load(TimePoint{}, steady_now())->step == 7);
}

TEST_CASE(
    "worker channel: a worker's last messages are read when the round ends, without the loop") {
  Bench bench("c");
  const Caller caller(bench);
  caller.say(channel::WorkerEvent{"[1]"});
  caller.say(channel::Unhealthy{"hot\x1b[2J"});
  bench.channel.end_round();
  const auto told = bench.sink.all<event::WorkerToldEvent>();
  REQUIRE(told.size() == 1);
  CHECK((told[0].data == "[1]" && told[0].rank == 3 && told[0].local_rank == 1));
  CHECK(bench.sink.all<event::WorkerUnhealthy>().at(0).why.find('\x1b') == std::string::npos);
  CHECK(bench.channel.progress()[1].unhealthy);
}

TEST_CASE(
    "worker channel: a worker's last messages do not affect its successor in the next round") {
  Bench bench("g");
  Caller caller(bench);
  static_cast<void>(caller.hear(bench));
  caller.say(channel::Unhealthy{"hot"});
  bench.channel.end_round();
  bench.begin(2);
  CHECK(bench.sink.all<event::WorkerUnhealthy>().size() == 1);
  CHECK_FALSE(bench.channel.progress()[1].unhealthy);
}

TEST_CASE("worker channel: subscribers receive deaths on all nodes, and stop requests") {
  Bench bench("d");
  Caller caller(bench);
  caller.say(channel::Subscribe{});
  static_cast<void>(caller.hear(bench));
  CHECK(std::get<channel::Round>(caller.hear(bench)).rank == 3);
  event::WorkerEnded ended;
  ended.rank = 2;
  ended.exit.status = ExitStatus{.signaled = true, .value = SIGKILL};
  ended.reaped = false;
  bench.events.tell(ended);
  ended.reaped = true;
  bench.events.tell(ended);
  bench.events.tell(event::RegroupAsked{"node 'a' is gone", {0, 2}});
  bench.events.tell(event::WorkersSignalled{SIGTERM});
  bench.events.tell(event::WorkersSignalled{SIGCONT});
  bench.begin(2);
  const auto gone = std::get<channel::Gone>(caller.hear(bench));
  CHECK((gone.rank == 2 && gone.count == 1 && gone.failed && gone.epoch == 1));
  const auto node = std::get<channel::Gone>(caller.hear(bench));
  CHECK((node.rank == 0 && node.count == 2));
  const auto stop = std::get<channel::Stop>(caller.hear(bench));
  CHECK((stop.seconds == 30 && stop.why == gone.why));
  CHECK(std::get<channel::Round>(caller.hear(bench)).epoch == 2);
}

TEST_CASE("worker channel: after a notice of preemption, code 75 is no failure") {
  Bench bench("f75");
  Caller caller(bench);
  caller.say(channel::Subscribe{});
  static_cast<void>(caller.hear(bench));
  static_cast<void>(caller.hear(bench));
  event::WorkerEnded ended;
  ended.rank = 2;
  ended.exit.status = ExitStatus{.value = 75};
  ended.reaped = true;
  const auto fails = [&] {
    bench.events.tell(ended);
    return std::get<channel::Gone>(caller.hear(bench)).failed;
  };
  CHECK(fails());
  bench.begin(2);
  static_cast<void>(caller.hear(bench));
  bench.channel.begin_preemption(steady_now() + kDeadline);
  CHECK_FALSE(fails());
}

TEST_CASE("worker channel: all sent frames are read before an exit or a departure is judged") {
  Bench bench("k");
  std::vector<std::string> order;
  bench.channel.when_resumed([&](int, std::uint64_t) { order.push_back("ready"); });
  bench.channel.when_left([&](int) { order.push_back("left"); });
  Caller first(bench);
  Caller second(bench);
  for (Caller* caller : {&first, &second}) {
    caller->say(channel::Subscribe{true});
    static_cast<void>(caller->hear(bench));
    CHECK(std::get<channel::Round>(caller->hear(bench)).epoch == 1);
  }
  SECTION("an exit") {
    first.say(channel::Ready{1});
    bench.events.tell(event::WorkerEnded{});
    CHECK(order == std::vector<std::string>{"ready"});
  }
  SECTION("a departure") {
    second.say(channel::Subscribe{});
    first.say(channel::Ready{1});
    bench.run_until([&] { return order.size() == 2; });
    CHECK(order == std::vector<std::string>{"ready", "left"});
  }
}

TEST_CASE("worker channel: a flood is paused, and resumes when its pause is over") {
  Bench bench("e");
  Caller caller(bench);
  static_cast<void>(caller.hear(bench));
  std::string flood;  // in one piece, which fits into the socket buffer
  for (std::uint64_t step = 0; step < channel::kFramesBurst + 50; ++step) {
    flood += channel::encode(channel::WorkerFrame(channel::ProgressMade{step}));
  }
  caller.send(flood);
  const std::uint64_t last = channel::kFramesBurst + 49;
  bench.run_until([&] { return bench.channel.progress()[1].step == last; });
  // The connection is read again.
  caller.say(channel::ProgressMade{last + 1});
  bench.run_until([&] { return bench.channel.progress()[1].step == last + 1; });
  // No warning if this machine took half a second for the first thousand.
  CHECK(bench.sink.all<event::Message>().size() <= 1);
}

TEST_CASE("worker channel: a name that is taken is an error, and no channel is created") {
  const Bench bench("f");
  asio::io_context loop;
  EventStream events{"node1", wall_now_seconds};
  WorkerChannel second(loop, events, std::chrono::seconds(1));
  CHECK_FALSE(second.open("f" + std::to_string(::getpid())));
  CHECK(second.name().empty());
  second.end_round();
}

TEST_CASE("worker channel: gives notice to workers that check for it, and announces the step") {
  Bench bench("l");
  std::vector<std::pair<int, std::uint64_t>> saved;
  bench.channel.when_saved(
      [&](int local_rank, std::uint64_t step) { saved.emplace_back(local_rank, step); });
  Caller caller(bench);
  static_cast<void>(caller.hear(bench));
  auto page = channel::ProgressPage::map(std::move(caller.fds.at(0)));
  REQUIRE(page);
  CHECK_FALSE(bench.channel.polls_preemption());
  page->announce_polls();
  CHECK(bench.channel.polls_preemption());
  page->store(118, steady_now());
  CHECK_FALSE(page->poll());
  const TimePoint deadline = steady_now() + std::chrono::seconds(30);
  bench.channel.begin_preemption(deadline);
  CHECK(page->poll());
  CHECK(page->deadline() == deadline);
  CHECK(bench.channel.latest_step() == 118U);
  bench.channel.preempt({119, deadline, "SIGTERM"});
  caller.say(channel::Subscribe{});
  caller.say(channel::Saved{119});
  CHECK(std::get<channel::Round>(caller.hear(bench)).rank == 3);
  CHECK(std::get<channel::Preempt>(caller.hear(bench)).step == 119U);
  bench.run_until([&] { return !saved.empty(); });
  CHECK(saved == std::vector<std::pair<int, std::uint64_t>>{{1, 119}});
  event::WorkerEnded ended;
  ended.rank = 3;
  bench.events.tell(ended);
  CHECK_FALSE(bench.channel.polls_preemption());
}

TEST_CASE("worker channel: a worker that connects after the notice sees it, until the next round") {
  Bench bench("m");
  const auto page_of = [&](Caller& caller) {
    static_cast<void>(caller.hear(bench));
    auto page = channel::ProgressPage::map(std::move(caller.fds.at(0)));
    REQUIRE(page);
    return std::move(*page);
  };
  bench.channel.begin_preemption(steady_now());
  Caller late(bench);
  CHECK(page_of(late).poll());
  bench.begin(2);
  Caller next(bench);
  CHECK_FALSE(page_of(next).poll());
}
