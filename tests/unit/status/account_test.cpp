// SPDX-License-Identifier: Apache-2.0
// What the time of a job was used for, from its events.
#include "job_lines.hpp"
#include "status/fold_account.hpp"
#include "status/job_report.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace muster;

namespace {

constexpr const char* kOneNode =
    R"("attempt":0,"restarts":0,"group_rank":0,"rank_first":0,"workers":2,"world_size":2)";
constexpr const char* kKilled = R"(,"end":"killed by SIGKILL","exit_code":137,"signal":"SIGKILL")";
constexpr const char* kStopped = R"(,"end":"killed by SIGTERM","exit_code":143,"signal":"SIGTERM")";

double seconds(const TimeSpent& spent, TimeUse use) {
  return static_cast<double>(spent.of(use)) / 1e6;
}

// A job on one node that runs from 102 on.
JobStatus started_job(const std::string& job = "j") {
  JobStatus status;
  add(status, 100, "job_started", 0, R"("program":"t.py","workers":2,"job":")" + job + "\"");
  add(status, 101, "round_begun", 1, kOneNode);
  start_workers(status, 102, 1, 2);
  return status;
}

// Rank 1 fails at 120, and the next round runs from 126 on.
void fail_once(JobStatus& status) {
  add(status, 120, "worker_ended", 1, ranks(1) + kKilled);
  add(status, 120, "restart", 1, R"("replaced":[],"text":"rank 1 was killed")");
  add(status, 120, "workers_signalled", 1, R"("signal":"SIGTERM")");
  add(status, 123, "worker_ended", 1, ranks(0) + kStopped);
  add(status, 125, "round_begun", 2, kOneNode);
  start_workers(status, 126, 2, 2);
}

void end_well(JobStatus& status, double time) {
  for (const int rank : {0, 1}) {
    add(status, time, "worker_ended", 2, ranks(rank) + R"(,"end":"exited","exit_code":0)");
  }
  add(status, time, "job_ended", 2, R"("outcome":"succeeded","exit_code":0)");
}

}  // namespace

TEST_CASE("account: every second of a job has one use") {
  JobStatus status = started_job();
  add(status, 105, "first_step", 1, R"("local_rank":0,"step":1)");
  add(status, 112, "saved", 1, ranks(0) + R"(,"step":7)");
  fail_once(status);
  add(status, 130, "first_step", 2, R"("local_rank":0,"step":8)");
  end_well(status, 150);
  const TimeSpent spent = spent_until(status, 9999);
  CHECK(spent.total == 50'000'000);
  CHECK(seconds(spent, TimeUse::forming) == 3);   // 100 to 101, 123 to 125
  CHECK(seconds(spent, TimeUse::starting) == 9);  // 101 to 105, 125 to 130
  CHECK(seconds(spent, TimeUse::running) == 27);  // 105 to 112, 130 to 150
  CHECK(seconds(spent, TimeUse::lost) == 8);      // 112 to 120
  CHECK(seconds(spent, TimeUse::stopping) == 3);
  CHECK(spent.is_lost_known);
  CHECK(spent.goodput() == 27.0 / 50);
  CHECK(loss_line(spent) ==
        "8.00 s of 50.00 s were lost: work since the last save. goodput: 54.0 %");
}

TEST_CASE("account: without a report of a save, lost time is unknown") {
  JobStatus status = started_job();
  fail_once(status);
  const TimeSpent spent = spent_until(status, 130);
  CHECK_FALSE(spent.is_lost_known);
  CHECK(seconds(spent, TimeUse::lost) == 0);
  CHECK(seconds(spent, TimeUse::running) == 22);
  CHECK(loss_line(spent).empty());
  CHECK(account_json(spent)["lost_us"].is_null());
  CHECK(account_json(spent)["goodput"].is_null());
  SECTION("a later save makes it known") {
    add(status, 131, "saved", 2, ranks(0) + R"(,"step":7)");
    CHECK(seconds(spent_until(status, 132), TimeUse::lost) == 18);
  }
  SECTION("a job without a failure has lost nothing") {
    JobStatus other = started_job();
    end_well(other, 110);
    CHECK(spent_until(other, 110).is_lost_known);
    CHECK(seconds(spent_until(other, 110), TimeUse::lost) == 0);
  }
}

TEST_CASE("account: a replaced rank costs the work since the last commit, and the mend") {
  JobStatus status = started_job();
  add(status, 104, "worker_ready", 1, ranks(0));
  add(status, 120, "worker_ended", 1, ranks(1) + kKilled);
  add(status, 120, "restart", 2, R"("replaced":[1],"text":"rank 1 was killed")");
  add(status, 120, "rolled_back", 2, R"("seconds":0.5)");
  add(status, 121, "worker_started", 2, ranks(1) + R"(,"pid":200)");
  add(status, 123, "mended", 2, R"("ranks":[1],"seconds":3)");
  const TimeSpent spent = spent_until(status, 133);
  CHECK(seconds(spent, TimeUse::mending) == 3);
  CHECK(seconds(spent, TimeUse::lost) == 0.5);
  CHECK(seconds(spent, TimeUse::running) == 25.5);
  CHECK(spent.is_lost_known);
  SECTION("a mend that fails is a restart") {
    add(status, 134, "restart", 3, R"("replaced":[1],"text":"rank 1 was killed")");
    add(status, 136, "regroup", 3, R"("reason":"ranks did not resume")");
    CHECK(seconds(spent_until(status, 140), TimeUse::mending) == 5);
    CHECK(seconds(spent_until(status, 140), TimeUse::stopping) == 4);
  }
}

TEST_CASE("account: missing nodes and --restart-delay are waiting time") {
  JobStatus status;
  add(status, 100, "job_started", 0, R"("program":"t.py","workers":2,"job":"j")");
  add(status, 100, "round_awaited", 0);
  add(status, 103, "roll_call", 0, R"("present":1,"needed":2)");
  add(status, 110, "roll_call", 0, R"("present":2,"needed":2)");
  add(status, 111, "round_begun", 1, kThreeNodes);
  start_workers(status, 112, 1, 2);
  CHECK(seconds(spent_until(status, 112), TimeUse::waiting) == 7);
  CHECK(seconds(spent_until(status, 112), TimeUse::forming) == 4);
  add(status, 120, "worker_ended", 1, ranks(0) + kKilled);
  add(status, 120, "worker_ended", 1, ranks(1) + kStopped);
  add(status, 120, "restart_delayed", 1, R"("seconds":5)");
  CHECK(seconds(spent_until(status, 124), TimeUse::waiting) == 11);
  add(status, 128, "round_begun", 2, kThreeNodes);
  CHECK(seconds(spent_until(status, 128), TimeUse::waiting) == 12);
  CHECK(seconds(spent_until(status, 128), TimeUse::forming) == 7);
}

TEST_CASE("account: a preempted job that has saved loses nothing") {
  JobStatus status = started_job();
  add(status, 110, "preempt", 1, R"("why":"SIGTERM","seconds":30,"step":5)");
  add(status, 111, "saved", 1, ranks(0) + R"(,"step":5)");
  add(status, 112, "job_ended", 1, R"("outcome":"interrupted","exit_code":75)");
  CHECK(seconds(spent_until(status, 112), TimeUse::lost) == 0);
}

TEST_CASE("account: a clock that is set back stops the account until it has caught up") {
  JobStatus status = started_job();
  add(status, 110, "message", 1, R"("level":"info")");
  add(status, 50, "message", 1, R"("level":"info")");
  add(status, 111, "message", 1, R"("level":"info")");
  CHECK(spent_until(status, 111).total == 11'000'000);
}

TEST_CASE("account: the uses add up to the time for any sequence of events") {
  const std::vector<std::pair<const char*, const char*>> events{
      {"job_started", R"("workers":2)"},
      {"round_begun", kOneNode},
      {"roll_call", R"("present":1,"needed":2)"},
      {"worker_started", R"("rank":0,"local_rank":0,"pid":1)"},
      {"worker_started", R"("rank":1,"local_rank":1,"pid":2)"},
      {"worker_ended", R"("rank":0,"local_rank":0,"exit_code":1)"},
      {"worker_ready", R"("rank":0,"local_rank":0)"},
      {"first_step", R"("local_rank":0,"step":1)"},
      {"saved", R"("rank":0,"local_rank":0,"step":1)"},
      {"rolled_back", R"("seconds":1e11)"},
      {"restart", R"("replaced":[1])"},
      {"restart", R"("replaced":[])"},
      {"restart_delayed", R"("seconds":2)"},
      {"mended", ""},
      {"regroup", ""},
      {"leftovers", ""},
      {"preempt", ""},
      {"part_done", ""},
      {"job_ended", R"("outcome":"failed")"}};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    JobStatus status;
    double time = 100;
    for (int i = 0; i < 60; ++i) {
      const auto& [name, fields] = events[random() % events.size()];
      add(status, time, name, 1, fields);
      time += static_cast<double>(random() % 1000) / 100;
    }
    const TimeSpent spent = spent_until(status, status.changed);
    INFO("seed " << seed);
    CHECK(spent.total == micros_of(status.changed) - micros_of(100));
    CHECK(spent.total == std::reduce(spent.uses.begin(), spent.uses.end()));
    CHECK(std::ranges::all_of(spent.uses, [](Micros use) { return use >= 0; }));
  }
}

TEST_CASE("account: a requeued job continues the account") {
  JobStatus killed = started_job("slurm-7");
  add(killed, 103, "saved", 1, ranks(0) + R"(,"step":1)");
  add(killed, 110, "message", 1, R"("level":"info")");  // the launcher is killed
  JobStatus second;
  add(second, 160, "job_started", 0, R"("program":"t.py","workers":2,"job":"slurm-7-r1")");
  add(second, 161, "round_begun", 1, kOneNode);
  start_workers(second, 162, 1, 2);
  end_well(second, 180);
  const auto runs = runs_of_job({run_of(killed)}, run_of(second));
  REQUIRE(runs.size() == 2);
  const TimeSpent spent = spent_in(runs);
  CHECK(spent.total == 80'000'000);
  CHECK(seconds(spent, TimeUse::waiting) == 50);
  CHECK(seconds(spent, TimeUse::lost) == 7);
  SECTION("but not an account of another job") {
    for (const char* other : {"slurm-8", "slurm-77", "none", ""}) {
      CHECK(runs_of_job({run_of(started_job(other))}, run_of(second)).size() == 1);
    }
    JobStatus done = started_job("slurm-7");
    end_well(done, 120);
    CHECK(runs_of_job({run_of(done)}, run_of(second)).size() == 1);
  }
  SECTION("but only if the earlier run asked for another start, or the scheduler says so") {
    JobStatus failed = started_job("slurm-7");
    add(failed, 120, "job_ended", 0, R"("outcome":"failed","exit_code":1)");
    CHECK(runs_of_job({run_of(failed)}, run_of(second)).size() == 1);
    failed.scheduler_job = "slurm-7";
    CHECK(runs_of_job({run_of(failed)}, run_of(second)).size() == 2);
    JobStatus preempted = started_job("slurm-7");
    add(preempted, 120, "job_ended", 0, R"("outcome":"succeeded","exit_code":75)");
    CHECK(runs_of_job({run_of(preempted)}, run_of(second)).size() == 2);
  }
  SECTION("the scheduler's id counts, if there is one") {
    second.job = "7d1c";
    second.scheduler_job = "slurm-7-r1";
    CHECK(runs_of_job({run_of(killed)}, run_of(second)).size() == 2);
  }
  SECTION("the same run on another node counts once") {
    JobRun other = run_of(second);
    other.node = "b";
    CHECK(runs_of_job({run_of(killed), other}, run_of(second)).size() == 2);
  }
  SECTION("the report shows the runs") {
    Json report{{"outcome", "succeeded"}, {"program", "t.py"}, {"node", "a"}};
    add_runs(report, runs);
    const std::string text = report_text(report);
    CHECK(text.starts_with("t.py on a: succeeded with exit code 0\n2 runs of this job:\n"));
    CHECK(text.contains("on a, 10.00 s, no end reported\n"));
    CHECK(text.contains("  waiting         50.00 s    62.5 %\n"));
    CHECK(text.contains("  total        1 min 20 s   100.0 %\n"));
  }
}

TEST_CASE("account: a report shows the defects that a check has found") {
  const Json report =
      parse_json(R"({"check":{"findings":[{"node":"b","text":"usable CPUs 1"},{"node":7}]}})");
  CHECK(report_text(report).contains("check: b: usable CPUs 1\n"));
}

TEST_CASE("account: a report from a file is harmless") {
  for (const char* text : {R"({"account":{"total_us":-5,"running_us":"x","goodput":7}})",
                           R"({"account":3,"runs":[1,2],"root_cause":{}})",
                           R"({"program":"\u001b[31m"})"}) {
    CHECK_FALSE(report_text(parse_json(text)).contains('\x1b'));
  }
}
