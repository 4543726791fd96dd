// SPDX-License-Identifier: Apache-2.0
#include "status/metrics.hpp"

#include "job_lines.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("metrics: figures of a job that has regrouped") {
  MetricsExtra extra;
  extra.now = 130;
  extra.output_bytes = 17;
  const std::string text = metrics_text(regrouped_job(), extra);
  for (const char* line : {"muster_round 2\n",
                           "muster_world_size 4\n",
                           "muster_nodes 2\n",
                           "muster_leader 1\n",
                           "muster_job_age_seconds 30\n",
                           "muster_phase{phase=\"running\"} 1\n",
                           "muster_workers{state=\"running\"} 2\n",
                           "muster_regroups_total 1\n",
                           "muster_regroup_seconds_bucket{le=\"2.5\"} 0\n",
                           "muster_regroup_seconds_bucket{le=\"5\"} 1\n",
                           "muster_regroup_seconds_bucket{le=\"+Inf\"} 1\n",
                           "muster_regroup_seconds_sum 4\n",
                           "muster_output_bytes_total 17\n"}) {
    CAPTURE(line);
    CHECK(has(text, line));
  }
  CHECK_FALSE(has(metrics_text(regrouped_job(), {}), "output_bytes"));
}

TEST_CASE("metrics: a hang") {
  JobStatus status = running_job();
  CHECK(has(metrics_text(status, {}), "muster_hang 0\n"));
  add(status, 120, "hang", 1);
  CHECK(has(metrics_text(status, {}), "muster_hang 1\n"));
  CHECK(has(metrics_text(status, {}), "muster_hangs_total 1\n"));
}

TEST_CASE("metrics: wait times of workers, and slow ranks") {
  JobStatus status = running_job();
  CHECK_FALSE(has(metrics_text(status, {}), "muster_straggler{"));
  CHECK(has(metrics_text(status, {}), "muster_straggler_cost_ratio 0\n"));
  status.rounds.back().workers.at(0).stats.waits = WaitStatus{0.25, 12.5};
  status.rounds.back().workers.at(1).stats.waits = WaitStatus{0, 0.5};
  add(status, 120, "straggler", 1, R"("ranks":[1],"share":0.25)");
  for (const char* line : {"muster_worker_waiting_seconds_total{rank=\"0\"} 12.5\n",
                           "muster_worker_waiting_seconds_total{rank=\"1\"} 0.5\n",
                           "muster_straggler{rank=\"0\"} 0\n",
                           "muster_straggler{rank=\"1\"} 1\n",
                           "muster_straggler_cost_ratio 0.25\n"}) {
    CAPTURE(line);
    CHECK(has(metrics_text(status, {}), line));
  }
}

TEST_CASE("metrics: text from outside cannot end a label") {
  JobStatus status;
  status.job = "a\"b\\c\nd";
  CHECK(has(metrics_text(status, {}), R"(job="a\"b\\cd")"));
}
