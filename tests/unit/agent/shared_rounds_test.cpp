// SPDX-License-Identifier: Apache-2.0
// SharedRounds between a rendezvous that the test plays and a supervisor that records its calls.
#include "agent/rounds/shared_rounds.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>

using namespace muster;

namespace {

using Lines = std::vector<std::string>;

struct Told {
  std::vector<AgentEvent> events;
  int deadlines_checked = 0;

  template <class Event>
  [[nodiscard]] const Event* last() const {
    return events.empty() ? nullptr : std::get_if<Event>(&events.back());
  }
};

class FakeRendezvous final : public Rendezvous {
 public:
  explicit FakeRendezvous(Told& told) : told_(told) {}

  void tell(AgentEvent event) override { told_.events.push_back(std::move(event)); }

  void check_deadlines() override { ++told_.deadlines_checked; }

  const std::string& address() const override { return address_; }

  Result<std::unique_ptr<StoreServer>> open_store_on_endpoint() override {
    return failure(Errc::system, "the endpoint is not ours");
  }

  void store_closed() override {}

  [[nodiscard]] Result<void> forget(const std::string& name) override {
    return failure(Errc::not_possible, name);
  }

  StoreCarrier* carrier() override { return nullptr; }

 private:
  Told& told_;
  std::string address_ = "127.0.0.1";
};

class FakeHost final : public RoundUser, public RunFolder, public EventSink {
 public:
  std::vector<SupervisorEvent> events;
  std::vector<RoundToRun> rounds;
  std::vector<MendToRun> mends;
  std::vector<JobEvent> told;
  Assignment assignment;  // of the last round

  void handle(const SupervisorEvent& event) override { events.push_back(event); }

  void run_round(RoundToRun round) override { rounds.push_back(std::move(round)); }

  void run_mend(MendToRun mend) override { mends.push_back(std::move(mend)); }

  int starts() const override { return static_cast<int>(rounds.size()); }

  Result<std::vector<ProcessSpec>> prepare_mend(const Assignment& /*of_round*/,
                                                const std::vector<int>& /*ranks*/) override {
    return std::vector<ProcessSpec>{};
  }

  Result<std::vector<ProcessSpec>> prepare_round(const Assignment& of_round) override {
    assignment = of_round;
    ProcessSpec spec;
    spec.rank = of_round.rank_first;
    return std::vector{spec};
  }

  const std::string& path() const override { return folder_; }

  std::string kept_logs() const override { return "/logs"; }

  void take(const JobEvent& event) override { told.push_back(event); }

 private:
  std::string folder_;
};

struct Bench {
  asio::io_context loop;
  AgentSetup setup;
  FakeHost host;
  Told told;
  EventStream events{"node1", [] { return 1000.0; }};
  RollCallLines roll_call{loop, RollCallStyle{}, [](const std::string& /*text*/) {}};
  AdmitEverybody admission;
  JobSockets sockets;
  SharedRounds rounds{loop,
                      with_config(setup),
                      SharedRoundsParts{host, host, events, roll_call, admission, sockets}};

  explicit Bench(bool joins = true) {
    events.add(host);
    if (joins) {
      rounds.start(std::make_unique<FakeRendezvous>(told), nullptr);
    }
  }

  static const AgentSetup& with_config(AgentSetup& setup) {
    setup.config.rdzv_backend = "c10d";
    setup.config.program.name = "train.py";
    return setup;
  }

  // The second of two nodes with one worker each.
  void run() {
    auto round = std::make_shared<Round>();
    round->id.number = 4;
    round->restart_count = 2;
    round->members.resize(2);
    rounds.run_round(RunRound{round, 1, "10.0.0.1", 29500});
  }
};

WorkerFailure exited(int code) {
  WorkerFailure failure;
  failure.rank = 1;
  failure.status = ExitStatus{false, code};
  return failure;
}

}  // namespace

TEST_CASE("shared rounds: starts the processes of a round with the ranks of this node") {
  Bench bench;
  bench.run();
  REQUIRE(bench.host.rounds.size() == 1);
  CHECK(bench.host.rounds.front().rank_first == 1);
  REQUIRE(bench.host.rounds.front().specs);
  CHECK(bench.host.rounds.front().specs->front().rank == 1);
  CHECK(bench.host.rounds.front().others == 1);
}

TEST_CASE("shared rounds: the mend that uses the last restart says so") {
  Bench bench;
  bench.setup.config.max_restarts = 4;
  bench.run();
  bench.rounds.run_mend(RunMend{Mends{5, 3}, 0, {0}, 0, "x"});
  bench.rounds.run_mend(RunMend{Mends{6, 4}, 1, {1}, 1, "y"});
  REQUIRE(bench.host.mends.size() == 2);
  CHECK((bench.host.mends[0].epoch == 5 && bench.host.mends[0].number == 0));
  CHECK_FALSE(bench.host.mends[0].last);
  CHECK((bench.host.mends[1].epoch == 6 && bench.host.mends[1].number == 1));
  CHECK(bench.host.mends[1].last);
}

TEST_CASE("shared rounds: a worker's failure message says whether it lost its connection") {
  Bench bench;
  bench.run();
  WorkerFailure lost = exited(1);
  for (const bool is_lost : {true, false}) {
    lost.lost_connection = is_lost;
    bench.told.events.clear();
    bench.rounds.report_failure(lost);
    const auto* failed = std::get_if<WorkerFailedHere>(&bench.told.events.front());
    REQUIRE(failed != nullptr);
    CHECK(failed->lost_connection == is_lost);
  }
}

TEST_CASE("shared rounds: reports a failure first and its evidence afterwards") {
  Bench bench;
  bench.run();
  WorkerFailure seen = exited(7);
  seen.stderr_tail = "the last line";
  bench.rounds.report_failure(seen);
  REQUIRE(bench.told.events.size() == 2);
  const auto* failed = std::get_if<WorkerFailedHere>(&bench.told.events[0]);
  REQUIRE(failed != nullptr);
  CHECK(failed->message.rank == 1);
  CHECK(failed->message.exit_code == 7);
  CHECK(failed->message.exited);
  CHECK(failed->message.round.number == 4);
  CHECK_FALSE(failed->was_stopped);
  const auto* details = std::get_if<Details>(&bench.told.events[1]);
  REQUIRE(details != nullptr);
  const auto story = parse_story(details->blob);
  REQUIRE(story);
  CHECK(story->root.stderr_tail == "the last line");
  CHECK(story->logs == "/logs");
  CHECK(story->attempt == 3);
}

TEST_CASE(
    "shared rounds: a worker that our stop killed is reported as stopped, without a decision") {
  Bench bench;
  bench.run();
  WorkerFailure stopped = exited(0);
  stopped.status = ExitStatus{true, 15};
  stopped.after_stop = true;
  bench.rounds.report_failure(stopped);
  const auto* failed = std::get_if<WorkerFailedHere>(&bench.told.events.front());
  REQUIRE(failed != nullptr);
  CHECK(failed->was_stopped);
  CHECK_FALSE(failed->message.exited);
  CHECK_FALSE(failed->message.consequence);
}

TEST_CASE("shared rounds: passes the supervisor's reports to the rendezvous") {
  Bench bench;
  bench.run();
  bench.rounds.tell_gone();
  CHECK(bench.told.last<WorkersGone>() != nullptr);
  bench.rounds.report_finished();
  CHECK(bench.told.last<WorkersFinished>() != nullptr);
  bench.rounds.leave_round({"asked to end"});
  REQUIRE(bench.told.last<LeaveAsked>() != nullptr);
  CHECK(bench.told.last<LeaveAsked>()->reason == "asked to end");
}

TEST_CASE("shared rounds: a stop before this node has joined ends the job") {
  Bench bench(false);
  bench.rounds.leave_round({"asked to stop by SIGTERM"});
  bench.rounds.tell_gone();
  CHECK(std::ranges::any_of(bench.host.events, [](const SupervisorEvent& event) {
    return std::holds_alternative<RoundClosed>(event);
  }));
}

TEST_CASE("shared rounds: passes the rendezvous' requests to the supervisor") {
  Bench bench;
  bench.run();
  bench.rounds.stop_workers({"node 'b' joins"});
  REQUIRE(bench.host.events.size() == 1);
  CHECK(std::get<RegroupNotice>(bench.host.events[0]).reason == "node 'b' joins");
  bench.rounds.fence_workers("no answer");
  REQUIRE(bench.host.events.size() == 2);
  CHECK(std::holds_alternative<Fenced>(bench.host.events[1]));
  Close close;
  close.exit_code = 7;
  close.root_rank = 0;
  bench.rounds.ended(EndClosed{close});
  REQUIRE(bench.host.events.size() == 3);
  CHECK(std::get<RoundClosed>(bench.host.events[2]).outcome == Outcome::failed);
}

TEST_CASE("shared rounds: a job that ends because too few nodes are left blames no worker") {
  Bench bench;
  bench.run();
  Close close;
  close.exit_code = 1;
  close.reason = "too few nodes are left";
  bench.rounds.ended(EndClosed{close});
  REQUIRE(bench.host.events.size() == 1);
  const auto& closed = std::get<RoundClosed>(bench.host.events[0]);
  CHECK(closed.outcome == Outcome::not_started);
  REQUIRE(closed.error);
  CHECK(closed.error->code == Errc::timed_out);
  CHECK(closed.error->message == "too few nodes are left");
}

TEST_CASE("shared rounds: opens the workers' store if this node hosts it") {
  Bench bench;
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreOpened>() != nullptr);
  CHECK(bench.told.last<StoreOpened>()->address == "127.0.0.1");
  CHECK(bench.told.last<StoreOpened>()->port != 0);
}

TEST_CASE("shared rounds: reports the leader's ports with the store and keeps them") {
  Bench bench;
  bench.setup.config.leader_ports = 2;
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreOpened>() != nullptr);
  const LeaderOffer first = bench.told.last<StoreOpened>()->offer;
  CHECK(first.serves_store);
  REQUIRE(first.ports.size() == 2);
  CHECK(first.ports[0] != first.ports[1]);
  bench.rounds.open_store(RoundId{});
  CHECK(bench.told.last<StoreOpened>()->offer == first);
}

TEST_CASE(
    "shared rounds: reserves a port for a worker that serves the store, a new one each time") {
  Bench bench;
  bench.setup.config.agent_store = false;
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreOpened>() != nullptr);
  const StoreOpened first = *bench.told.last<StoreOpened>();
  CHECK_FALSE(first.offer.serves_store);
  CHECK(listen_on("127.0.0.1", first.port));
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreOpened>() != nullptr);
  CHECK(bench.told.last<StoreOpened>()->port != first.port);
}

TEST_CASE("shared rounds: the assignment contains the offer of rank 0's node") {
  Bench bench;
  bench.setup.config.ports = 1;
  auto round = std::make_shared<Round>();
  round->members.resize(2);
  bench.rounds.run_round(RunRound{round, 1, "10.0.0.1", 29500, LeaderOffer{false, {40001}}});
  CHECK_FALSE(bench.host.assignment.agent_store);
  CHECK(bench.host.assignment.leader_ports == std::vector<std::uint16_t>{40001});
  REQUIRE(bench.host.assignment.ports.size() == 1);
  CHECK(bench.host.assignment.ports.front() != 0);
}

TEST_CASE("shared rounds: reports why a static job's store cannot be opened") {
  Bench bench;
  bench.setup.config.rdzv_backend = "static";
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreFailed>() != nullptr);
  CHECK(bench.told.last<StoreFailed>()->error.message == "the endpoint is not ours");
}

TEST_CASE("shared rounds: a client from another host waits until its node has answered") {
  Bench bench;
  std::vector<std::string> heard;
  const auto ask = [&](std::uint16_t port) {
    bench.rounds.vouching().admit({"10.0.0.2", port, "10.0.0.1", 7}, [&](const Result<void>& said) {
      heard.push_back(said ? "in" : said.error().message);
    });
    REQUIRE(bench.told.last<VouchWanted>() != nullptr);
    return *bench.told.last<VouchWanted>();
  };
  const VouchWanted first = ask(4000);
  const VouchWanted second = ask(4001);
  CHECK(first.client < second.client);
  CHECK(second.connection == StoreClient{"10.0.0.2", 4001, "10.0.0.1", 7});
  CHECK(heard.empty());
  bench.rounds.vouch_known(VouchKnown{second.client, Error{Errc::not_possible, "no"}});
  bench.rounds.vouch_known(VouchKnown{first.client, std::nullopt});
  bench.rounds.vouch_known(VouchKnown{first.client, std::nullopt});
  CHECK(heard == Lines{"no", "in"});
}

TEST_CASE("shared rounds: does not vouch for a connection that does not exist on this host") {
  Bench bench;
  Vouch question{.asker = 1, .sequence = 2, .asked = 1, .client = {"192.0.2.1", 5, "192.0.2.2", 6}};
  bench.rounds.find_owner(FindOwner{question});
  REQUIRE(bench.told.last<OwnerFound>() != nullptr);
  CHECK(bench.told.last<OwnerFound>()->question == question);
  CHECK(bench.told.last<OwnerFound>()->answer == VouchAnswer::no_socket);
  question.client.host = "not an address";
  bench.rounds.find_owner(FindOwner{question});
  CHECK(bench.told.last<OwnerFound>()->answer == VouchAnswer::no_socket);
}

TEST_CASE("shared rounds: sends no answer about a client if it has no free descriptor") {
  Bench bench;
  const FindOwner question{
      {.asker = 1, .sequence = 2, .asked = 1, .client = {"192.0.2.1", 5, "192.0.2.2", 6}}};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  bench.rounds.find_owner(question);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(bench.told.last<OwnerFound>() == nullptr);
  // The question is repeated and can now be answered.
  bench.rounds.find_owner(question);
  REQUIRE(bench.told.last<OwnerFound>() != nullptr);
  CHECK(bench.told.last<OwnerFound>()->answer == VouchAnswer::no_socket);
  // Files that were opened once stay open.
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  bench.told.events.clear();
  bench.rounds.find_owner(question);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(bench.told.last<OwnerFound>() != nullptr);
  CHECK(bench.told.last<OwnerFound>()->answer == VouchAnswer::no_socket);
}

TEST_CASE("shared rounds: with --store-via=proxy the reported store address is 127.0.0.1") {
  Bench bench;
  bench.setup.config.store_via = StoreVia::proxy;
  bench.setup.config.local_addr = "127.0.0.2";
  bench.rounds.open_store(RoundId{});
  REQUIRE(bench.told.last<StoreOpened>() != nullptr);
  CHECK(bench.told.last<StoreOpened>()->address == "127.0.0.1");
  CHECK(bench.told.last<StoreOpened>()->offer.is_carried);
}

TEST_CASE("shared rounds: acts on an expired lease before it handles a worker's exit") {
  Bench bench;
  bench.run();
  bench.rounds.check_lease();
  CHECK(bench.told.deadlines_checked == 0);
  bench.rounds.lease_until(TimePoint{});  // long ago
  bench.rounds.check_lease();
  CHECK(bench.told.deadlines_checked == 1);
}

TEST_CASE("shared rounds: a round is an event with its number, as are the events that follow") {
  Bench bench;
  bench.run();
  REQUIRE_FALSE(bench.host.told.empty());
  const JobEvent& begun = bench.host.told.back();
  REQUIRE(std::holds_alternative<event::RoundBegun>(begun.what));
  CHECK(begun.round == 4);
  CHECK(begun.node == "node1");
  CHECK(std::get<event::RoundBegun>(begun.what).assignment.rank_first == 1);
  CHECK(std::get<event::RoundBegun>(begun.what).logs == "/logs");
  bench.rounds.stop_workers({"node 'b' joins"});
  CHECK(bench.host.told.size() == 4);  // awaited, started, the request to regroup, awaited
  CHECK(std::get<event::RegroupAsked>(bench.host.told[2].what).reason == "node 'b' joins");
  CHECK(bench.host.told[2].round == 4);
}

namespace {

struct FakeListener final : InquiryListener {
  std::vector<InquiryStep> steps;

  void inquire(const InquiryStep& step) override { steps.push_back(step); }
};

}  // namespace

TEST_CASE("shared rounds: without --hang-timeout a node answers inquiries with empty findings") {
  Bench bench;
  bench.rounds.inquire(LookNow{{.round = {4, 1}, .inquiry = 7}});
  REQUIRE(bench.told.last<LookedHere>() != nullptr);
  CHECK(bench.told.last<LookedHere>()->message == Looked{{4, 1}, 7, ""});
  bench.rounds.inquire(JudgeNow{{4, 1}, 7, {}});
  REQUIRE(bench.told.last<JudgedHere>() != nullptr);
  CHECK(bench.told.last<JudgedHere>()->message == Judged{{4, 1}, 7, ""});
  bench.rounds.inquire(HearVerdict{{{4, 1}, 7, "x"}});
  CHECK(bench.told.events.size() == 2);
}

TEST_CASE("shared rounds: the hang watch inspects, judges and receives the verdict") {
  Bench bench;
  FakeListener listener;
  bench.rounds.use(Topic::hang, listener);
  bench.rounds.inquire(LookNow{{.round = {4, 1}, .inquiry = 7}});
  bench.rounds.inquire(JudgeNow{{4, 1}, 8, {}});
  bench.rounds.inquire(HearVerdict{{{4, 1}, 8, "x"}});
  REQUIRE(listener.steps.size() == 3);
  CHECK(std::get<LookNow>(listener.steps[0]).question.inquiry == 7);
  CHECK(std::get<JudgeNow>(listener.steps[1]).inquiry == 8);
  CHECK(std::get<HearVerdict>(listener.steps[2]).said.verdict == "x");
  bench.rounds.tell(InquireHere{});
  CHECK(bench.told.last<InquireHere>() != nullptr);
}

TEST_CASE("shared rounds: a hung worker fails with the verdict, and may end the job") {
  for (const bool ends_job : {false, true}) {
    Bench bench;
    bench.run();
    WorkerFailure killed = exited(0);
    killed.status = ExitStatus{true, 9};
    killed.hung = true;
    killed.ends_job = ends_job;
    killed.record = ErrorRecord{"hang: rank 1 on 'b': sleeps", {}, {}};
    bench.rounds.report_failure(killed);
    REQUIRE(bench.told.events.size() == 2);
    const Failed& failed = std::get<WorkerFailedHere>(bench.told.events[0]).message;
    CHECK(failed.exit_code == (ends_job ? kHungCode : 137));
    CHECK(failed.permanent == ends_job);
    CHECK(failed.text == std::string("made no progress and was killed (--on-hang=") +
                             (ends_job ? "stop)" : "restart)"));
    const auto story = parse_story(std::get<Details>(bench.told.events[1]).blob);
    REQUIRE(story);
    CHECK(story->root.record->message == "hang: rank 1 on 'b': sleeps");
  }
}
