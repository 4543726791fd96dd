// SPDX-License-Identifier: Apache-2.0
// The report: the few lines that end a failed job's stderr. Which rank, what ended it, why, what
// else failed, where the logs are. Pure: result in, text out; called once by the agent.
#pragma once

#include "agent/failures/job_result.hpp"
#include "base/printable.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::size_t kReportLinesMax = 15;

struct ReportSite {
  std::string node;     // name of this machine
  std::string program;  // as typed
  std::string logs;     // folder with output and report.json; empty if there are none
  bool colour = false;
};

// What another rank printed that failed before we stopped any, or that lost its connection.
struct EarlyGist {
  std::string line;  // "rank 0: …"
  bool only_lost_root = false;
};

// The report on a failed job, before it is rendered. For a job of many nodes all of it comes from
// the message that ended the job, so every node renders the same; only the lines on what this node
// could not stop or kill, which stand before it, differ.
struct FailureStory {
  std::string program;
  std::string node;  // of the root cause
  std::string end;   // "exited with code 7"
  WorkerFailure root;
  bool has_details = true;  // false: of `root` only the rank is known
  int attempt = 1;          // of the job
  int attempts = 1;         // that it may have
  std::string verdict;      // why there is no further one
  std::vector<OtherFailure> others;
  std::size_t others_unnamed = 0;
  std::size_t same_traceback = 0;  // of the others
  std::vector<EarlyGist> early_gists;
  std::string logs;  // where those of the root cause are; empty: there are none
};

// None where no worker failed.
[[nodiscard]] std::optional<FailureStory> story_of(const JobResult& result, const ReportSite& site);

// Empty where there is nothing to say: all workers ended well and nothing is left. Else at most
// kReportLinesMax lines, each with its line break.
[[nodiscard]] std::string render_report(const JobResult& result, const ReportSite& site);

// The Python traceback of a failure: from its error file, else the last one on its stderr, each
// with the exceptions that led to it; empty where there is none.
[[nodiscard]] std::string traceback_of(const WorkerFailure& failure);

// Failures that are neither the root cause nor workers that we stopped.
[[nodiscard]] std::vector<const WorkerFailure*> other_failures(const JobResult& result);

// The signal's name and its sender, for a job that was interrupted.
[[nodiscard]] std::string describe_interruption(const JobResult& result);

}  // namespace muster
