// SPDX-License-Identifier: Apache-2.0
// What the time of a job was used for, over all of its runs: a scheduler may have requeued the job,
// so that a new launcher continued it. For musterctl report. Pure.
#pragma once

#include "status/job_status.hpp"
#include "status/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster {

// The maximum number of runs in a report. Older runs are omitted.
inline constexpr std::size_t kRunsReportedMax = 100;

// One run of a job, as one node saw it.
struct JobRun {
  std::string job;  // the scheduler's id, or else --rdzv-id
  std::string program;
  std::string node;
  std::string outcome;     // empty if the launcher has not reported its end
  bool may_go_on = false;  // a later run with the same id continues this one
  bool leads = false;      // the node held rank 0
  TimeAccount time;
};

[[nodiscard]] JobRun run_of(const JobStatus& status);

// The runs among `others` that `newest` continues, and `newest` itself, in order of time. Runs that
// overlap are the same run on several nodes, of which only one counts.
[[nodiscard]] std::vector<JobRun> runs_of_job(std::vector<JobRun> others, JobRun newest);

// The time from the begin of the first run to the end of the last one. The time between two runs is
// TimeUse::waiting.
[[nodiscard]] TimeSpent spent_in(const std::vector<JobRun>& runs);

// The fields of report.json that come from the status, after the job has ended.
[[nodiscard]] std::string report_fields_json(const JobStatus& status);

// Sets `account` and `runs` of a report.
void add_runs(Json& report, const std::vector<JobRun>& runs);

// The report as text for people. `report` may come from a file and is untrusted.
[[nodiscard]] std::string report_text(const Json& report);

// One line for stderr at the end of a run, in which work was thrown away; otherwise empty.
[[nodiscard]] std::string loss_line(const TimeSpent& spent);

}  // namespace muster
