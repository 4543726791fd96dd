// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/channel_core.hpp"

#include "support/catch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

using namespace muster;
using namespace muster::channel;

namespace {

constexpr pid_t kFirstPid = 100;

TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

// Node 1 of 2, with 2 of 4 workers, in the round with this number.
Round round_of(std::uint64_t epoch) {
  Round out;
  out.epoch = epoch;
  out.rank = 2;
  out.world_size = 4;
  out.local_world_size = 2;
  out.group_rank = 1;
  out.group_world_size = 2;
  return out;
}

struct Bench {
  ChannelCore core;
  TimePoint now = at(10);
  Effects effects;

  Bench() { begin(1); }

  void begin(std::uint64_t epoch) {
    core.begin_round(now, round_of(epoch), effects);
    core.worker_started(now, 0, kFirstPid);
    core.worker_started(now, 1, kFirstPid + 1);
  }

  void open(ConnectionId id, int local_rank) { core.opened(id, local_rank, effects); }

  void say(ConnectionId id, std::string_view bytes) { core.received(now, id, bytes, effects); }

  void say(ConnectionId id, const WorkerFrame& frame) { say(id, encode(frame)); }

  // Effects of this kind since the last call; the others are discarded as well.
  template <class Kind>
  std::vector<Kind> take() {
    std::vector<Kind> out;
    for (const Effect& effect : effects) {
      if (const auto* one = std::get_if<Kind>(&effect)) {
        out.push_back(*one);
      }
    }
    effects.clear();
    return out;
  }

  std::vector<AgentFrame> read(ConnectionId id) {
    LineReader lines;
    lines.feed(core.unsent(id));
    core.sent(id, core.unsent(id).size());
    std::vector<AgentFrame> out;
    for (auto line = lines.next(); line && *line; line = lines.next()) {
      out.push_back(decode_agent_frame(**line)->value());
    }
    return out;
  }
};

const std::string kProgress = encode(WorkerFrame(ProgressMade{1}));

}  // namespace

// -- identity ---------------------------------------------------------------------------------

TEST_CASE("channel core: a process speaks for the worker from which it descends") {
  const Bench bench;
  std::map<pid_t, Family> processes{{100, {9, 100}},
                                    {101, {9, 101}},
                                    {200, {100, 100}},  // a child
                                    {201, {200, 201}},  // a grandchild in its own group
                                    {202, {9, 101}},    // an orphan in its worker's group
                                    {203, {9, 203}},    // has left its parent and its group
                                    {9, {1, 9}},        // the agent
                                    {300, {301, 300}},  // a false cycle of parents
                                    {301, {300, 301}}};
  const AskFamily family = [&](pid_t pid) {
    const auto found = processes.find(pid);
    return found == processes.end() ? std::nullopt : std::optional(found->second);
  };
  CHECK(bench.core.worker_of(100, family) == 0);
  CHECK(bench.core.worker_of(101, family) == 1);
  CHECK(bench.core.worker_of(200, family) == 0);
  CHECK(bench.core.worker_of(201, family) == 0);
  CHECK(bench.core.worker_of(202, family) == 1);
  for (const pid_t nobody : {203, 9, 300, 1, 0, -1, 999}) {
    CHECK(bench.core.worker_of(nobody, family) == std::nullopt);
  }
  processes.clear();  // a worker that has exited is still known
  CHECK(bench.core.worker_of(101, family) == 1);
}

TEST_CASE("channel core: pids of the previous round belong to no worker") {
  Bench bench;
  bench.core.begin_round(bench.now, round_of(2), bench.effects);
  CHECK(bench.core.worker_of(100, [](pid_t) { return std::nullopt; }) == std::nullopt);
}

TEST_CASE("channel core: the first frame tells the worker its identity") {
  Bench bench;
  bench.open(1, 1);
  const auto greet = bench.take<Greet>();
  REQUIRE(greet.size() == 1);
  CHECK(greet[0] == Greet{1, 1, encode(AgentFrame(Hello{kVersion, 1, 3, 1}))});
}

TEST_CASE("channel core: a stranger gets the reason and is disconnected, without a warning") {
  Bench bench;
  bench.core.opened(1, std::nullopt, bench.effects);
  REQUIRE(bench.effects.size() == 1);
  const auto close = bench.take<Close>();
  CHECK(close[0].text.contains("refused"));
  bench.say(1, kProgress);
  CHECK(bench.effects.empty());
}

TEST_CASE("channel core: limits the connections of each worker separately") {
  Bench bench;
  for (ConnectionId id = 1; id <= kConnectionsPerWorker; ++id) {
    bench.open(id, 0);
  }
  CHECK(bench.take<Greet>().size() == kConnectionsPerWorker);
  bench.open(50, 0);
  bench.open(51, 0);
  CHECK(std::ranges::count_if(bench.effects, [](const Effect& one) {
          return std::holds_alternative<Warn>(one);
        }) == 1);
  CHECK(bench.take<Close>().size() == 2);
  bench.open(52, 1);
  CHECK(bench.take<Greet>().size() == 1);
  bench.core.closed(1, bench.effects);
  bench.open(53, 0);
  CHECK(bench.take<Greet>().size() == 1);
}

// -- messages from workers --------------------------------------------------------------------

TEST_CASE("channel core: progress is the last step, from a frame or from the page") {
  Bench bench;
  CHECK(bench.core.progress() == std::vector<Progress>{{{}, at(10), {}}, {{}, at(10), {}}});
  bench.open(1, 1);
  bench.now = at(11);
  bench.say(1, ProgressMade{7});
  CHECK(bench.core.progress()[1] == Progress{7, at(11), {}});
  bench.core.take_step(1, {8, at(12)});
  CHECK(bench.core.progress()[1] == Progress{8, at(12), {}});
  bench.core.take_step(1, {3, at(11)});  // older
  CHECK(bench.core.progress()[1] == Progress{8, at(12), {}});
  CHECK(bench.core.progress()[0] == Progress{{}, at(10), {}});
  bench.now = at(20);
  bench.begin(2);
  CHECK(bench.core.progress()[1] == Progress{{}, at(20), {}});
}

TEST_CASE("channel core: a false rank changes nothing") {
  Bench bench;
  bench.open(1, 1);
  bench.say(1,
            R"({"type":"unhealthy","why":"x","rank":2,"local_rank":0})"
            "\n");
  CHECK(bench.take<Said>() == std::vector{Said{1, 3, Unhealthy{"x"}}});
  CHECK_FALSE(bench.core.progress()[0].unhealthy);
}

TEST_CASE("channel core: reports health when it changes") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Healthy{});
  CHECK(bench.take<Said>().empty());
  bench.say(1, Unhealthy{"loss is nan"});
  bench.say(1, Unhealthy{"loss is nan"});
  CHECK(bench.take<Said>() == std::vector{Said{0, 2, Unhealthy{"loss is nan"}}});
  CHECK(bench.core.progress()[0].unhealthy == "loss is nan");
  bench.say(1, Unhealthy{"hot"});
  CHECK(bench.take<Said>() == std::vector{Said{0, 2, Unhealthy{"hot"}}});
  bench.say(1, Healthy{});
  bench.say(1, Healthy{});
  CHECK(bench.take<Said>() == std::vector{Said{0, 2, Healthy{}}});
  CHECK_FALSE(bench.core.progress()[0].unhealthy);
}

TEST_CASE("channel core: ready counts once, in the current round") {
  Bench bench;
  bench.begin(2);
  bench.open(1, 0);
  bench.say(1, Ready{1});
  CHECK(bench.take<Said>().empty());
  bench.say(1, Ready{2});
  bench.say(1, Ready{2});
  CHECK(bench.take<Said>() == std::vector{Said{0, 2, Ready{2}}});
}

TEST_CASE("channel core: half a frame waits for the rest, and does no harm if it never arrives") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 1);
  const std::string whole = encode(WorkerFrame(WorkerEvent{"[1]"}));
  bench.say(1, whole.substr(0, 9));
  CHECK(bench.take<Said>().empty());
  bench.say(2, whole);
  CHECK(bench.take<Said>().size() == 1);
  bench.say(1, whole.substr(9) + whole.substr(0, 3));
  CHECK(bench.take<Said>() == std::vector{Said{0, 2, WorkerEvent{"[1]"}}});
  bench.core.closed(1, bench.effects);
  CHECK(bench.effects.empty());
}

TEST_CASE("channel core: an invalid frame closes its connection, with one warning per round") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 0);
  bench.effects.clear();
  bench.say(1, "rubbish\n" + kProgress);
  REQUIRE(bench.effects.size() == 2);
  CHECK(std::get<Warn>(bench.effects[0]).text ==
        "rank 2 sent muster a line that is not JSON; its connection is closed");
  CHECK(std::get<Close>(bench.effects[1]).text ==
        encode(AgentFrame(Refused{"a line that is not JSON"})));
  CHECK_FALSE(bench.core.progress()[0].step);
  bench.effects.clear();
  bench.say(2, std::string(kFrameBytesMax + 1, 'x'));
  REQUIRE(bench.effects.size() == 1);
  CHECK(std::get<Close>(bench.effects[0]).connection == 2);
}

TEST_CASE("channel core: only a worker that sends too much has to wait") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 1);
  bench.effects.clear();
  std::string flood;
  for (int i = 0; i < kFramesBurst + 5; ++i) {
    flood += kProgress;
  }
  bench.say(1, flood);
  REQUIRE(bench.effects.size() == 2);
  CHECK(std::get<Warn>(bench.effects[0]).text.starts_with("rank 2 sends more than 100"));
  const Hold hold = std::get<Hold>(bench.effects[1]);
  CHECK(hold == Hold{1, at(10.01)});
  bench.effects.clear();
  bench.say(2, encode(WorkerFrame(Unhealthy{"x"})));
  CHECK(bench.take<Said>().size() == 1);
  // One more frame may pass. Then the worker waits again, without another warning.
  bench.core.resumed(hold.until, 1, bench.effects);
  CHECK(bench.effects == Effects{Hold{1, at(10.02)}});
  bench.effects.clear();
  bench.core.resumed(at(11), 1, bench.effects);
  CHECK(bench.effects.empty());
}

TEST_CASE("channel core: deferred messages of a worker are read after its round has ended") {
  Bench bench;
  bench.open(1, 0);
  bench.effects.clear();
  for (int i = 0; i < kFramesBurst + 50; ++i) {
    bench.say(1, encode(WorkerFrame(WorkerEvent{"1"})));
  }
  CHECK(bench.take<Said>().size() == kFramesBurst);
  bench.core.end_round();
  bench.core.resumed(at(10), 1, bench.effects);
  CHECK(bench.take<Said>().size() == 50);
}

TEST_CASE("channel core: a second connection does not bypass the limit") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 0);
  bench.effects.clear();
  for (int i = 0; i < kFramesBurst; ++i) {
    bench.say(i % 2 == 0 ? 1U : 2U, kProgress);
  }
  CHECK(bench.effects.empty());
  bench.say(1, kProgress);
  bench.say(2, kProgress);
  CHECK(bench.take<Hold>().size() == 2);
}

TEST_CASE("channel core: one worker's events cannot fill the log") {
  Bench bench;
  bench.open(1, 0);
  const std::string big = '"' + std::string(8000, 'x') + '"';
  int told = 0;
  int warned = 0;
  for (int i = 0; i < 100; ++i) {
    bench.say(1, WorkerEvent{big});
    for (const Effect& effect : bench.effects) {
      told += std::holds_alternative<Said>(effect) ? 1 : 0;
      warned += std::holds_alternative<Warn>(effect) ? 1 : 0;
    }
    bench.effects.clear();
  }
  CHECK(told == static_cast<int>(kEventBytesPerWorker / (big.size() + 128)));
  CHECK(warned == 1);
  // The limit also holds in the next round; the worker's health is still reported.
  bench.begin(2);
  bench.open(2, 0);
  bench.say(2, WorkerEvent{big});
  CHECK(bench.take<Said>().empty());
  bench.say(2, Unhealthy{"x"});
  CHECK(bench.core.progress()[0].unhealthy == "x");
}

TEST_CASE("channel core: truncates a long reason") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Unhealthy{std::string(5000, 'x')});
  CHECK(bench.core.progress()[0].unhealthy->size() == kWhyBytesMax + 3);
}

// -- the feed ---------------------------------------------------------------------------------

TEST_CASE("channel core: subscribers receive the round at once, then events in order") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 1);
  bench.say(2, Subscribe{});
  bench.say(2, Subscribe{});
  Round mine = round_of(1);
  mine.local_rank = 1;
  mine.rank = 3;
  CHECK(bench.read(2) == std::vector<AgentFrame>{mine});
  const Gone gone{1, 2, 1, true, "killed by SIGKILL"};
  bench.core.tell(gone, bench.effects);
  bench.core.tell(gone, bench.effects);  // the other nodes report it, too
  const Gone node{1, 0, 2, true, "node 'a' is gone"};
  bench.core.tell(node, bench.effects);
  bench.core.tell(Stop{30, "x"}, bench.effects);
  Round next = round_of(2);
  next.left = {{"a", 0, 2}};
  bench.core.begin_round(at(11), next, bench.effects);
  next.local_rank = 1;
  next.rank = 3;
  CHECK(bench.read(2) == std::vector<AgentFrame>{gone, node, Stop{30, "x"}, next});
  CHECK(bench.core.unsent(1).empty());
  // A rank of the new round may exit as well.
  const Gone again{2, 2, 1, false, "exited with code 0"};
  bench.core.tell(again, bench.effects);
  CHECK(bench.read(2) == std::vector<AgentFrame>{again});
}

TEST_CASE("channel core: a late subscriber receives what has happened in the round so far") {
  Bench bench;
  const Gone gone{1, 0, 1, true, "killed by SIGKILL"};
  bench.core.tell(gone, bench.effects);
  bench.core.tell(Stop{30, "x"}, bench.effects);
  bench.open(1, 0);
  bench.say(1, Subscribe{});
  CHECK(bench.read(1) == std::vector<AgentFrame>{round_of(1), gone, Stop{30, "x"}});
  bench.begin(2);
  bench.open(2, 0);
  bench.say(2, Subscribe{});
  CHECK(bench.read(2) == std::vector<AgentFrame>{round_of(2)});
}

TEST_CASE("channel core: all subscribers of the round receive a preemption, also late ones") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Subscribe{});
  static_cast<void>(bench.read(1));
  bench.core.tell(at(10), PreemptNews{119, at(40), "SIGTERM"}, bench.effects);
  CHECK(bench.read(1) == std::vector<AgentFrame>{Preempt{119, 30, "SIGTERM"}});
  bench.now = at(25);
  bench.open(2, 0);
  bench.say(2, Subscribe{});
  CHECK(bench.read(2) == std::vector<AgentFrame>{round_of(1), Preempt{119, 15, "SIGTERM"}});
  bench.now = at(41);  // after the deadline
  bench.open(3, 0);
  bench.say(3, Subscribe{});
  CHECK(bench.read(3) == std::vector<AgentFrame>{round_of(1), Preempt{119, 0, "SIGTERM"}});
  bench.begin(2);
  bench.open(4, 0);
  bench.say(4, Subscribe{});
  CHECK(bench.read(4) == std::vector<AgentFrame>{round_of(2)});
}

TEST_CASE("channel core: reports which worker has saved which step") {
  Bench bench;
  bench.open(1, 1);
  bench.say(1, Saved{119});
  CHECK(bench.take<SavedStep>() == std::vector{SavedStep{1, 119}});
  // A worker whose events no longer fit into the event log is still asked for what it saves last.
  const WorkerEvent large{'"' + std::string(8000, 'x') + '"'};
  for (std::size_t bytes = 0; bytes <= kEventBytesPerWorker; bytes += large.data.size()) {
    bench.say(1, large);
  }
  for (int i = 0; i < 100; ++i) {
    bench.say(1, Saved{120});
  }
  bench.effects.clear();
  bench.say(1, Saved{120});
  CHECK(bench.take<SavedStep>().empty());
  bench.core.tell(bench.now, PreemptNews{121, at(40), "SIGTERM"}, bench.effects);
  bench.say(1, Saved{121});
  CHECK(bench.take<SavedStep>() == std::vector{SavedStep{1, 121}});
}

TEST_CASE("channel core: a process that may outlive the job is named by its connection") {
  Bench bench;
  bench.open(7, 1);
  bench.say(7, Outlive{});
  CHECK(bench.take<Outlives>() == std::vector{Outlives{7}});
  CHECK(bench.core.is_worker(kFirstPid + 1));
  CHECK_FALSE(bench.core.is_worker(kFirstPid + 2));
}

TEST_CASE("channel core: repeats only the last of very many deaths") {
  Bench bench;
  for (int rank = 0; rank < 3000; ++rank) {
    bench.core.tell(Gone{1, rank, 1, false, "exited with code 0"}, bench.effects);
  }
  bench.open(1, 0);
  bench.say(1, Subscribe{});
  const auto told = bench.read(1);
  REQUIRE(told.size() == 1 + kEndsRepeatedMax);
  CHECK(std::get<Gone>(told.back()).rank == 2999);
}

TEST_CASE(
    "channel core: disconnects a subscriber that does not read, after a bounded amount of memory") {
  Bench bench;
  bench.open(1, 0);
  bench.open(2, 1);
  bench.say(1, Subscribe{});
  bench.say(2, Subscribe{});
  bench.effects.clear();
  std::size_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    bench.core.tell(Stop{1, "a reason of some length, as they are"}, bench.effects);
    most = std::max(most, bench.core.unsent(1).size());
    bench.read(2);
  }
  CHECK(most <= kUnreadBytesMax);
  CHECK(bench.core.unsent(1).empty());
  CHECK(bench.read(2).empty());
  const auto closed = std::ranges::count_if(bench.effects, [](const Effect& one) {
    return one == Effect(Close{1, {}});
  });
  const auto warned = std::ranges::count_if(
      bench.effects, [](const Effect& one) { return std::holds_alternative<Warn>(one); });
  CHECK((closed == 1 && warned == 1));
}

TEST_CASE("channel core: fewer workers in the next round: disconnects the excess ones") {
  Bench bench;
  bench.open(1, 1);
  bench.open(2, 0);
  bench.say(1, Subscribe{});
  bench.say(2, Subscribe{});
  bench.effects.clear();
  Round small = round_of(2);
  small.local_world_size = 1;
  bench.core.begin_round(bench.now, small, bench.effects);
  CHECK(bench.take<Close>() == std::vector{Close{1, {}}});
  // From now on nothing is sent to it or received from it.
  for (int i = 0; i < 2000; ++i) {
    bench.core.tell(Stop{1, "a reason of some length, as they are"}, bench.effects);
    bench.read(2);
  }
  CHECK(bench.core.unsent(1).empty());
  bench.effects.clear();
  bench.say(1, kProgress);
  CHECK(bench.effects.empty());
}

// -- replaced workers -------------------------------------------------------------------------

TEST_CASE("channel core: after a mend, survivors get the round under its new epoch") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Subscribe{true});
  static_cast<void>(bench.read(1));
  bench.core.tell(Gone{1, 3, 1, true, "x"}, bench.effects);
  bench.core.begin_mend(2, {1}, bench.effects);
  const auto frames = bench.read(1);
  REQUIRE(frames.size() == 2);
  CHECK(std::get<Gone>(frames[0]).epoch == 1);
  const auto& round = std::get<Round>(frames[1]);
  CHECK((round.epoch == 2 && round.rank == 2 && round.world_size == 4));
  // A replacement does not hear of the deaths before it.
  bench.core.worker_started(bench.now, 1, 300);
  bench.open(2, 1);
  bench.say(2, Subscribe{true});
  const auto news = bench.read(2);
  REQUIRE(news.size() == 1);
  CHECK(std::get<Round>(news[0]).epoch == 2);
}

TEST_CASE("channel core: only workers that survive mends have to hear of a loss") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Heard{});
  bench.open(2, 1);
  bench.say(2, Subscribe{true});
  bench.say(2, Heard{});
  bench.say(2, Heard{true});
  CHECK(bench.take<HeardOfLoss>() == std::vector{HeardOfLoss{1}, HeardOfLoss{1, true}});
  bench.core.closed(1, bench.effects);
  CHECK(bench.take<HeardOfLoss>().empty());
  bench.core.closed(2, bench.effects);  // it cannot hear of anything any more
  CHECK(bench.take<HeardOfLoss>() == std::vector{HeardOfLoss{1}});
}

TEST_CASE("channel core: a flood of events does not delay the news of a loss") {
  Bench bench;
  bench.open(1, 1);
  bench.open(2, 1);
  bench.say(2, Subscribe{true});
  for (int i = 0; i <= kFramesBurst; ++i) {
    bench.say(1, WorkerEvent{"1"});
  }
  CHECK(bench.take<Hold>().size() == 1);
  bench.say(2, Heard{});
  CHECK(bench.take<HeardOfLoss>().size() == 1);
}

TEST_CASE("channel core: a worker resumes once in each epoch if it survives mends") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Ready{1});
  CHECK(bench.take<Resumed>().empty());  // ready, but it does not survive mends
  bench.open(2, 1);
  bench.say(2, Subscribe{true});
  bench.say(2, Ready{1});
  bench.say(2, Ready{1});
  CHECK(bench.take<Resumed>() == std::vector{Resumed{1, 1}});
  bench.core.begin_mend(2, {0}, bench.effects);
  bench.say(2, Ready{1});  // sent before it received the new round
  CHECK(bench.take<Resumed>().empty());
  bench.say(2, Ready{2});
  CHECK(bench.take<Resumed>() == std::vector{Resumed{1, 2}});
}

TEST_CASE("channel core: a worker reports once that it survives no further mend") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Subscribe{});
  CHECK(bench.take<Left>().empty());  // it never survived one
  bench.open(2, 1);
  bench.say(2, Subscribe{true});
  bench.say(2, Subscribe{false});
  bench.say(2, Subscribe{false});
  CHECK(bench.take<Left>() == std::vector{Left{1}});
}

TEST_CASE("channel core: ready on another connection does not hide that a worker resumes") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Ready{1});
  bench.open(2, 0);
  bench.say(2, Subscribe{true});
  bench.say(1, Ready{1});
  CHECK(bench.take<Resumed>().empty());
  bench.say(2, Ready{1});
  CHECK(bench.take<Resumed>() == std::vector{Resumed{0, 1}});
}

TEST_CASE("channel core: a replacement may get the pid of a worker that was replaced before") {
  Bench bench;
  bench.core.begin_mend(2, {1}, bench.effects);
  bench.core.worker_started(bench.now, 1, kFirstPid + 1);
  CHECK_FALSE(bench.core.was_replaced(kFirstPid + 1));
  bench.core.begin_mend(3, {1}, bench.effects);
  CHECK(bench.core.was_replaced(kFirstPid + 1));
}

TEST_CASE("channel core: a worker resumes even if its events no longer fit into the event log") {
  Bench bench;
  bench.open(1, 0);
  bench.say(1, Subscribe{true});
  const WorkerEvent large{'"' + std::string(8000, 'x') + '"'};
  for (std::size_t bytes = 0; bytes <= kEventBytesPerWorker; bytes += large.data.size()) {
    bench.say(1, large);
  }
  static_cast<void>(bench.take<Said>());
  bench.say(1, Ready{1});
  CHECK(bench.take<Resumed>() == std::vector{Resumed{0, 1}});
}

TEST_CASE("channel core: a replaced worker's processes no longer speak for its rank") {
  Bench bench;
  bench.core.begin_mend(2, {1}, bench.effects);
  const AskFamily nobody = [](pid_t) { return std::optional<Family>(); };
  CHECK(bench.core.was_replaced(kFirstPid + 1));
  CHECK_FALSE(bench.core.was_replaced(kFirstPid));
  CHECK(bench.core.worker_of(kFirstPid + 1, nobody) == std::nullopt);
  bench.core.worker_started(bench.now, 1, 300);
  CHECK(bench.core.worker_of(300, nobody) == 1);
  bench.begin(3);
  CHECK_FALSE(bench.core.was_replaced(kFirstPid + 1));
}
