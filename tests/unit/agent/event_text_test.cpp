// SPDX-License-Identifier: Apache-2.0
// The texts of events: lines on stderr, and lines of events.jsonl.
#include "agent/events/event_text.hpp"

#include "agent/events/event_stream.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <string>
#include <vector>

using namespace muster;

namespace {

JobEvent event_of(event::What what) {
  return JobEvent{1000.5, "node1", 4, std::move(what)};
}

event::RoundBegun begun(bool shared) {
  Assignment here;
  here.group_rank = 1;
  here.group_world_size = 2;
  here.rank_first = 8;
  here.local_world_size = 8;
  here.world_size = 16;
  here.attempt = 2;
  here.master_addr = "10.0.0.1";
  here.master_port = 29500;
  return {here, shared, "/run", "/run"};
}

class Recorder final : public EventSink {
 public:
  std::vector<JobEvent> taken;

  void take(const JobEvent& event) override { taken.push_back(event); }
};

}  // namespace

TEST_CASE("event text: lines on stderr") {
  const auto line = line_of(event_of(begun(true)));
  REQUIRE(line);
  CHECK(line->level == LogLevel::info);
  CHECK(line->text == "round 4: group rank 1 of 2, ranks 8 to 15 of 16, store on 10.0.0.1:29500");
  CHECK(line_of(event_of(begun(false)))->text ==
        "attempt 3: 8 workers, store on 10.0.0.1:29500, files in '/run'");
  CHECK(line_of(event_of(event::RestartDecided{}))->level == LogLevel::warning);
  CHECK(line_of(event_of(event::Message{LogLevel::error, "y"}))->level == LogLevel::error);
  CHECK_FALSE(line_of(event_of(event::WorkersKilled{})));
}

TEST_CASE("event text: by default prints lost nodes, the remaining nodes and new nodes") {
  const auto lost = line_of(event_of(event::RegroupAsked{"node 'n2' is gone", {8, 8}}));
  CHECK(lost->level == LogLevel::warning);
  CHECK(lost->text == "node 'n2' is gone; stopping the workers for a new round");
  CHECK(line_of(event_of(event::RegroupAsked{"rank 1 on 'n2' exited with code 1"}))->level ==
        LogLevel::info);
  CHECK(
      line_of(event_of(event::RegroupAsked{"node 'n2' leaves: asked to stop by SIGTERM"}))->level ==
      LogLevel::info);
  event::RoundBegun next = begun(true);
  next.assignment.group_world_size = 1;
  next.assignment.world_size = 8;
  next.change.left = {{"n2", 8, 8}};
  const auto line = line_of(event_of(next));
  CHECK(line->level == LogLevel::warning);
  CHECK(line->is_news);
  CHECK(line->text == "the job continues with 1 node and 8 workers; lost: n2");
  next.assignment.group_world_size = 3;
  next.assignment.world_size = 17;
  next.change = {{}, {{"n3", 16, 1}}};
  CHECK(line_of(event_of(next))->text ==
        "the job continues with 3 nodes and 17 workers; joined: n3");
  CHECK(event_json(event_of(next)).find(R"("left":[],"joined":["n3"])") != std::string::npos);
}

TEST_CASE("event text: names the processes that workers left behind, and what happened to each") {
  using Fate = event::LeftoversFound::Fate;
  event::LeftoversFound found{Fate::awaited, {{7, "rsync", 1}}, std::chrono::seconds(29)};
  CHECK(line_of(event_of(found))->text ==
        "all workers have exited; waiting up to 29s for 1 process that a worker left running: 7 "
        "(rsync, rank 1). Ctrl-C stops it");
  found.fate = Fate::killed;
  CHECK(line_of(event_of(found))->text ==
        "killed 1 process that a worker left running: 7 (rsync, rank 1)");
  CHECK(line_of(event_of(found))->level == LogLevel::warning);
  CHECK(event_json(event_of(found))
            .find(R"("fate":"killed","processes":[{"pid":7,"name":"rsync","rank":1}])") !=
        std::string::npos);
}

TEST_CASE("event text: a JSON line starts with version, time, name, node and round") {
  CHECK(event_json(event_of(event::SignalTaken{SIGTERM, 42})) ==
        R"({"v":1,"time":1000.5,"event":"signal","node":"node1","round":4,)"
        R"("signal":"SIGTERM","sender":42})"
        "\n");
}

TEST_CASE("event text: a hang contains its cause and the lines printed on stderr") {
  event::HangFound found;
  found.verdict.cause = hang::Cause::stopped;
  found.verdict.ranks = {3};
  found.verdict.reason = "stopped by a signal";
  CHECK(line_of(event_of(found))->text == "hang: rank 3: stopped by a signal");
  CHECK(line_of(event_of(found))->level == LogLevel::warning);
  const std::string text = event_json(event_of(found));
  CHECK(text.find(R"("event":"hang")") != std::string::npos);
  CHECK(text.find(R"("ranks":[3],"cause":"stopped","reason":"stopped by a signal")") !=
        std::string::npos);
  CHECK(event_json(event_of(event::HangOver{7})).find(R"("quiet":7.0)") != std::string::npos);
}

TEST_CASE("event text: a preemption contains its source and the step, if ranks report steps") {
  event::PreemptionBegun begun{"SIGTERM from pid 12", 29.6, 120};
  CHECK(line_of(event_of(begun))->text ==
        "preempted (SIGTERM from pid 12): the ranks have 30 s to save at step 120 and exit");
  CHECK(event_json(event_of(begun))
            .find(R"("event":"preempt","node":"node1","round":4,"why":"SIGTERM from pid 12",)"
                  R"("seconds":29.6,"step":120)") != std::string::npos);
  begun.step.reset();
  CHECK(line_of(event_of(begun))->text.ends_with("the ranks have 30 s to save and exit"));
  CHECK(event_json(event_of(begun)).find(R"("step":null)") != std::string::npos);
  CHECK(
      event_json(event_of(event::StepSaved{3, 1, 120}))
          .find(R"("event":"saved","node":"node1","round":4,"rank":3,"local_rank":1,"step":120)") !=
      std::string::npos);
}

TEST_CASE("event text: a straggler contains its cost, and seconds per step if known") {
  straggler::Named found{{.ranks = {3}, .share = 0.25}};
  CHECK(line_of(event_of(found))->text == "rank 3 is slow: it costs the job 25 % of its time");
  CHECK(line_of(event_of(found))->level == LogLevel::warning);
  CHECK(
      event_json(event_of(found))
          .find(R"("event":"straggler","node":"node1","round":4,"ranks":[3],"share":0.25,)"
                R"("step_seconds":null,"lost_seconds":null,"places":[],"text":"rank 3 is slow)") !=
      std::string::npos);
  found.slow.step_seconds = 0.5;
  found.slow.lost_seconds = 0.125;
  CHECK(event_json(event_of(found)).find(R"("step_seconds":0.5,"lost_seconds":0.125)") !=
        std::string::npos);
  found.slow.places = {{.node = "b", .ranks = {3}}};
  CHECK(event_json(event_of(found))
            .find(R"("places":[{"node":"b","ranks":[3],"whole":false}],"text":"rank 3 on 'b')") !=
        std::string::npos);
  const straggler::Over over{{3, 4}};
  CHECK(line_of(event_of(over))->text == "ranks 3, 4 are no longer slow");
  CHECK(event_json(event_of(over)).find(R"("ranks":[3,4])") != std::string::npos);
}

TEST_CASE("event text: a restart contains separate fields and the text") {
  const event::RestartDecided restart{3, 1, 77, 2, 5, "why", {0, 3}};
  const std::string text = event_json(event_of(restart));
  CHECK(text.find(R"("event":"restart")") != std::string::npos);
  CHECK(text.find(
            R"("rank":3,"local_rank":1,"pid":77,"restart":2,"restarts_left":5,"replaced":[0,3],)"
            R"("text":"why"})") != std::string::npos);
}

TEST_CASE(
    "event text: text from other processes stays on one JSON line without control characters") {
  const std::string text =
      event_json(event_of(event::Message{LogLevel::info, "a\nb\xff\x1b[1m\xe2\x80\xae"}));
  CHECK(text.find('\n') == text.size() - 1);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\xe2\x80\xae") == std::string::npos);
  CHECK(text.find("\xff") == std::string::npos);
}

TEST_CASE("event text: a worker that is not reaped yet is reported as dying, not as exited") {
  event::WorkerEnded ended;
  ended.exit.status = ExitStatus{true, SIGKILL};
  ended.reaped = false;
  CHECK(event_json(event_of(ended)).find("\"worker_dying\"") != std::string::npos);
  CHECK(line_of(event_of(ended))->text ==
        "local rank 0 (pid 0) killed by SIGKILL; the kernel is freeing its memory");
}

TEST_CASE("event stream: every sink receives every event in order, with the round at that time") {
  EventStream stream("node1", [] { return 1000.5; });
  Recorder first;
  Recorder second;
  stream.add(first);
  stream.add(second);
  stream.say(LogLevel::info, "x");
  stream.set_round(7);
  stream.say(LogLevel::info, "y");
  REQUIRE(second.taken.size() == 2);
  CHECK(first.taken.size() == 2);
  CHECK(second.taken[0].round == 0);
  CHECK(second.taken[1].round == 7);
  CHECK(second.taken[1].unix_time == 1000.5);
}
