// SPDX-License-Identifier: Apache-2.0
#include "job_lines.hpp"
#include "status/json.hpp"
#include "status/status_json.hpp"
#include "support/catch.hpp"

#include <string>

using namespace muster;

TEST_CASE("status: a job that forms, runs and succeeds") {
  JobStatus status;
  add(status, 100, "job_started", 0, R"("program":"p","workers":2,"job":"j")");
  CHECK(status.phase == JobPhase::waiting);
  add(status, 101, "round_begun", 1, R"("workers":2,"world_size":2,"group_rank":0)");
  CHECK(status.phase == JobPhase::starting);
  CHECK(status.round()->nodes.at(0).name == "a");
  start_workers(status, 102, 1, 1);
  CHECK_FALSE(status.ready());
  add(status, 103, "worker_started", 1, R"("rank":1,"local_rank":1,"pid":9)");
  CHECK(status.ready());
  CHECK(status.phase_since == 103);
  for (const int rank : {0, 1}) {
    add(status,
        104,
        "worker_ended",
        1,
        ranks(rank) + R"(,"end":"exited with code 0","exit_code":0,"signal":null)");
  }
  CHECK(status.phase == JobPhase::running);
  CHECK(status.round()->workers.at(1).state == WorkerState::succeeded);
  add(status, 105, "job_ended", 1, R"("outcome":"succeeded","exit_code":0)");
  CHECK(status.phase == JobPhase::ended);
  CHECK(status.round()->ended == 105);
}

TEST_CASE("status: a lost node, and how long the others took to continue") {
  const JobStatus status = regrouped_job();
  CHECK(status.ready());
  CHECK(status.regroups == 1);
  CHECK(status.nodes_lost == 1);
  CHECK(status.nodes_joined == 0);
  REQUIRE(status.rounds.size() == 2);
  CHECK(status.rounds[0].ended == 110);
  CHECK(status.rounds[0].why_ended == "node b is silent");
  CHECK(status.rounds[0].workers.at(0).state == WorkerState::stopped);
  CHECK(status.failures.empty());
  CHECK(status.regroup_times.sum == 4);
  CHECK(status.regroup_times.counts.at(5) == 1);  // up to 5 s
  const Json json = parse_json(status_json(status, 120));
  CHECK(json["rounds"][1]["left"] == Json::array({"b"}));
  CHECK(json["rounds"][1]["joined"] == Json::array());
  CHECK(json["nodes"][1]["rank_first"] == 2);
  CHECK(json["nodes"][1]["here"] == false);
  CHECK(json["workers"][0]["step"].is_null());
}

TEST_CASE("status: the first worker to fail has failed, the others were stopped") {
  JobStatus status = running_job();
  add(status,
      105,
      "worker_ended",
      1,
      R"("rank":1,"local_rank":1,"end":"exited with code 3","exit_code":3,"signal":null)");
  CHECK(status.phase == JobPhase::stopping);
  add(status,
      106,
      "worker_ended",
      1,
      R"("rank":0,"local_rank":0,"end":"killed by SIGTERM","exit_code":143,"signal":"SIGTERM")");
  add(status,
      106,
      "worker_failed",
      1,
      R"("rank":1,"local_rank":1,"unix_time":105,"end":"exited with code 3","message":"no")");
  CHECK(status.round()->workers.at(1).state == WorkerState::failed);
  CHECK(status.round()->workers.at(0).state == WorkerState::stopped);
  CHECK(status.round()->ended == 105);
  CHECK(status.round()->why_ended == "rank 1 exited with code 3");
  REQUIRE(status.failures.size() == 1);
  CHECK(status.failures[0].text == "exited with code 3: no");
  CHECK(status.failures_by_cause.at("exit_code") == 1);
}

TEST_CASE("status: the rank whose failure ended the round") {
  constexpr const char* kExited = R"(,"end":"exited with code 1","exit_code":1,"signal":null)";
  JobStatus status = running_job();
  add(status, 110, "worker_dying", 1, ranks(1) + kExited);
  add(status, 110, "worker_ended", 1, ranks(0) + kExited);
  CHECK(status.round()->failed_rank == 1);
  add(status, 111, "restart", 1, R"("rank":0,"text":"rank 0 failed")");
  CHECK(status.round()->failed_rank == 0);
  CHECK(status.round()->is_root(status.round()->workers.at(0)));
  CHECK_FALSE(status.round()->is_root(status.round()->workers.at(1)));
  status = running_job();
  add(status, 110, "worker_ended", 1, ranks(0) + kExited);
  add(status, 111, "regroup", 1, R"("reason":"x","gone_first":5,"gone":1)");
  CHECK(status.round()->failed_rank == 5);
  add(status, 112, "job_ended", 1, R"("outcome":"failed","root_cause":{"rank":4,"node":"c"})");
  CHECK(status.round()->failed_rank == 4);
  status = running_job();
  add(status, 112, "job_ended", 1, R"("outcome":"failed","root_rank":1,"root_cause":null)");
  CHECK(status.round()->failed_rank == 1);
}

TEST_CASE("status: the last line of a failure without a message") {
  JobStatus status = running_job();
  const auto last_line = [&](const char* fields) {
    add(status, 110, "worker_failed", 1, fields);
    return status.failures.back().last_line;
  };
  CHECK(last_line(R"("stderr_tail":"Traceback:\n  x\nValueError: loss is nan\n\n")") ==
        "ValueError: loss is nan");
  CHECK(last_line(R"("traceback":"a\nKeyError: 1","stderr_tail":"b\n")") == "KeyError: 1");
  CHECK(last_line(R"("stderr_tail":"one line")") == "one line");
  CHECK(last_line(R"("message":"m","stderr_tail":"b\n")").empty());
  CHECK(last_line(R"("stderr_tail":"\n \n")").empty());
  CHECK(last_line((R"("stderr_tail":")" + std::string(999, 'x') + "\"").c_str()).size() == 300);
}

TEST_CASE("status: a replaced worker continues the round") {
  JobStatus status = running_job();
  const std::string killed = R"(,"end":"killed by SIGKILL","exit_code":137,"signal":"SIGKILL")";
  add(status, 110, "worker_dying", 1, ranks(1) + killed);
  add(status, 110, "restart", 2, R"("rank":1,"replaced":[1],"text":"x")");
  add(status, 111, "worker_ended", 2, ranks(1) + killed);
  add(status, 112, "worker_started", 2, R"("rank":1,"local_rank":1,"pid":77)");
  CHECK(status.phase == JobPhase::starting);
  add(status, 113, "mended", 2, R"("ranks":[1],"seconds":3)");
  CHECK(status.phase == JobPhase::running);
  CHECK(status.restarts == 1);
  REQUIRE(status.rounds.size() == 1);
  CHECK(status.round()->ended == 0);
  CHECK(status.round()->why_ended.empty());
  REQUIRE(status.round()->workers.size() == 2);
  CHECK(status.round()->workers.back().pid == 77);
  CHECK(status.round()->workers.back().state == WorkerState::running);
}

TEST_CASE("status: causes of failures") {
  const auto cause_of = [](const std::string& fields) {
    JobStatus status;
    add(status, 1, "worker_failed", 1, fields);
    return status.failures.at(0).cause;
  };
  CHECK(cause_of(R"("started":false,"out_of_memory":false)") == "not_started");
  CHECK(cause_of(R"("signal":"SIGKILL","out_of_memory":true)") == "out_of_memory");
  CHECK(cause_of(R"("signal":"SIGSEGV","out_of_memory":false)") == "signal");
  CHECK(cause_of(R"("signal":null,"exit_code":1)") == "exit_code");
}

TEST_CASE("status: restarts count once, whichever node reports them") {
  JobStatus one = running_job();
  add(one, 105, "restart", 1, R"("text":"rank 1 exited with code 3; restart 1 of 3")");
  CHECK(one.restarts == 1);
  add(one, 106, "round_begun", 2, R"("workers":2,"world_size":2,"restarts":1)");
  CHECK(one.restarts == 1);
  JobStatus many = running_job();
  add(many, 105, "regroup", 1, R"("reason":"rank 4 exited with code 3")");
  add(many, 106, "round_begun", 2, R"("workers":2,"world_size":6,"restarts":1)");
  CHECK(many.restarts == 1);
}

TEST_CASE("status: a node that has finished, one that is fenced, one that waits") {
  JobStatus done = running_job();
  add(done, 120, "round_awaited", 1);
  add(done, 120, "part_done", 1);
  CHECK(done.phase == JobPhase::finished);
  JobStatus fenced = running_job();
  add(fenced, 120, "fenced", 1, R"("reason":"no sign of life")");
  CHECK(fenced.fences == 1);
  CHECK(fenced.phase == JobPhase::stopping);
  add(fenced, 121, "roll_call", 1, R"("present":1,"needed":2,"awaited":["1 more node"])");
  CHECK(fenced.phase == JobPhase::waiting);
  CHECK(fenced.roll_call->awaited == std::vector<std::string>{"1 more node"});
}

TEST_CASE("status: a hang, until the workers continue or are stopped") {
  constexpr const char* kVerdict =
      R"("ranks":[1],"cause":"stopped","reason":"stopped by a signal","quiet":3,"limit":2,)"
      R"("action":"report","text":["hang: rank 1: stopped by a signal","  no progress for 3 s"])";
  JobStatus status = running_job();
  add(status, 120, "hang", 1, kVerdict);
  CHECK(status.ready());
  REQUIRE(status.hang);
  CHECK(status.hang->ranks == std::vector<int>{1});
  const Json json = parse_json(status_json(status, 130));
  CHECK(json["hang"] == Json{{"time", 120.0},
                             {"ranks", {1}},
                             {"cause", "stopped"},
                             {"text", "rank 1: stopped by a signal"}});
  add(status, 131, "hang_over", 1, R"("quiet":11)");
  CHECK_FALSE(status.hang);
  CHECK(parse_json(status_json(status, 132))["hang"].is_null());
  add(status, 140, "hang", 1, kVerdict);
  CHECK(status.hangs == 2);
  add(status, 141, "workers_signalled", 1, R"("signal":"SIGTERM")");
  CHECK_FALSE(status.hang);
}

TEST_CASE("status: a straggler, until it is over or the workers are stopped") {
  constexpr const char* kSlow = R"("ranks":[1],"share":0.25,"text":"rank 1 is slow")";
  JobStatus status = running_job();
  CHECK(parse_json(status_json(status, 110))["straggler"].is_null());
  add(status, 120, "straggler", 1, kSlow);
  CHECK(parse_json(status_json(status, 130))["straggler"] == Json{{"time", 120.0},
                                                                  {"ranks", {1}},
                                                                  {"nodes", Json::array()},
                                                                  {"share", 0.25},
                                                                  {"text", "rank 1 is slow"}});
  add(status, 131, "straggler_over", 1, R"("ranks":[1])");
  CHECK_FALSE(status.straggler);
  add(status, 132, "straggler", 1, R"("ranks":[4],"places":[{"node":"b","ranks":[4]},7])");
  CHECK(status.straggler->nodes == std::vector<std::string>{"b", ""});
  add(status, 140, "straggler", 1, R"("ranks":[1,"x"],"share":"much")");
  CHECK(status.straggler->ranks == std::vector<int>{1});
  CHECK(status.straggler->share == 0);
  add(status, 141, "workers_signalled", 1, R"("signal":"SIGTERM")");
  CHECK_FALSE(status.straggler);
}

TEST_CASE("status: the last check") {
  JobStatus status = running_job();
  CHECK(parse_json(status_json(status, 110))["check"].is_null());
  add(status, 120, "check", 1, R"("nodes":2,"findings":[{"node":"b","text":"broken"}])");
  add(status, 121, "check", 1, R"("nodes":3,"findings":[{"node":"c","text":"slow"}])");
  CHECK(parse_json(status_json(status, 130))["check"] ==
        Json{{"time", 121.0},
             {"round", 1},
             {"nodes", 3},
             {"findings", {{{"node", "c"}, {"text", "slow"}}}}});
  add(status, 122, "check", 1, '"' + std::string(300'000, 'x') + "\":1");
  CHECK(parse_json(status_json(status, 130))["check"].is_null());
}

TEST_CASE("status: the failure that ended the job may be on another node") {
  JobStatus status = running_job();
  add(status,
      130,
      "job_ended",
      1,
      R"("outcome":"failed","exit_code":9,)"
      R"("root_cause":{"node":"b","rank":3,"end":"exited with code 9"})");
  REQUIRE(status.failures.size() == 1);
  CHECK(status.failures[0].node == "b");
  CHECK(status.failures[0].rank == 3);
}

TEST_CASE("status: invalid events and fields of other types do no harm") {
  JobStatus status = running_job();
  CHECK_FALSE(fold_event(status, "rubbish"));
  CHECK_FALSE(fold_event(status, "[1]"));
  CHECK_FALSE(fold_event(status, R"({"event":3})"));
  CHECK(fold_event(status, R"({"event":"never_heard_of"})"));
  for (const char* event : {"job_started",
                            "http_opened",
                            "roll_call",
                            "round_begun",
                            "worker_started",
                            "worker_ended",
                            "worker_failed",
                            "restart",
                            "regroup",
                            "signal",
                            "message",
                            "hang",
                            "straggler",
                            "job_ended"}) {
    CAPTURE(event);
    add(status,
        1,
        event,
        1,
        R"("rank":"x","nodes":7,"awaited":{"a":1},"workers":-3,"ranks":[{},-9e9])");
    CHECK_FALSE(status_json(status, 2).empty());
  }
}

TEST_CASE("status: forgets old rounds and failures") {
  JobStatus status = running_job();
  for (int i = 2; i < 500; ++i) {
    add(status, i, "round_begun", i, kTwoNodes);
    add(status, i, "worker_failed", i, R"("rank":1)");
  }
  CHECK(status.rounds.size() == kRoundsKeptMax);
  CHECK(status.rounds.back().number == 499);
  CHECK(status.rounds_count == 499);
  CHECK(status.failures.size() == kFailuresKeptMax);
}

TEST_CASE("status: distinguishes two launchers on one machine") {
  RoundStatus round;
  round.nodes = {{"a", "", 0, 1}, {"b", "", 1, 1}, {"a", "", 2, 1}};
  CHECK(node_labels(round) == std::vector<std::string>{"a", "b", "a (2)"});
}
