// SPDX-License-Identifier: Apache-2.0
// The report: the last few lines on stderr after a failed job. It shows which rank failed, how it
// exited and why, what else failed, and where the logs are. Pure: takes the result, returns text;
// called once by the agent.
#pragma once

#include "agent/failures/job_result.hpp"
#include "base/printable.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::size_t kReportLinesMax = 15;

struct ReportSite {
  std::string node;     // name of this host
  std::string program;  // as typed
  std::string logs;     // directory with output and report.json; empty without logs
  bool colour = false;
  std::string fields = {};  // further fields of report.json, as a JSON object; may be empty
};

// The report on a failed job, before it is rendered. In a multi-node job all of it comes from the
// message that ended the job, so every node prints the same text. Only the lines before the report
// differ between nodes: these lines list processes that the node could not stop or kill.
struct FailureStory {
  std::string program;
  std::string node;  // node of the root cause
  std::string end;   // such as "exited with code 7"
  WorkerFailure root;
  bool has_details = true;  // false: only the rank of `root` is known
  int attempt = 1;          // the job's attempt number
  int attempts = 1;         // maximum number of attempts
  std::string verdict;      // why there is no further attempt
  std::vector<OtherFailure> others;
  std::size_t others_unnamed = 0;
  std::size_t same_traceback = 0;  // number of other failures with the same traceback as `root`
  // "rank 0: …": output of other ranks that failed before we stopped any rank.
  std::vector<std::string> early_gists;
  std::vector<std::string> spare_gists;  // for ranks that only lost their connection to the root
  std::string logs;                      // log directory of the root cause; empty without logs
};

// None if no worker failed.
[[nodiscard]] std::optional<FailureStory> story_of(const JobResult& result, const ReportSite& site);

// Empty if there is nothing to report: all workers succeeded and no process remains. Otherwise at
// most kReportLinesMax lines, each with a line break.
[[nodiscard]] std::string render_report(const JobResult& result, const ReportSite& site);

// The Python traceback of a failure, with the chained exceptions that led to it. Taken from the
// error file, or else the last traceback on stderr. Empty without a traceback.
[[nodiscard]] std::string traceback_of(const WorkerFailure& failure);

// All failures except the root cause and those of workers that we stopped.
[[nodiscard]] std::vector<const WorkerFailure*> other_failures(const JobResult& result);

// For a job that was preempted: the source of the notice, and the steps that ranks on this node
// have saved: "preempted (SIGTERM from pid 12): all ranks saved step 120".
[[nodiscard]] std::string describe_preemption(const JobResult& result);

// For a job that was interrupted: the name of the signal, and its sender.
[[nodiscard]] std::string describe_interruption(const JobResult& result);

}  // namespace muster
