// SPDX-License-Identifier: Apache-2.0
// The report: the few lines that end a failed job's stderr. Which rank, what ended it, why, what
// else failed, where the logs are. Pure: result in, text out; called once by the agent.
#pragma once

#include "agent/job_result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::size_t kReportLinesMax = 15;
inline constexpr std::size_t kReportLineBytesMax = 200;

struct ReportSite {
  std::string node;     // name of this machine
  std::string program;  // as typed
  std::string logs;     // folder with output and report.json; empty where there is none
  bool colour = false;
};

// Empty where there is nothing to say: all workers ended well and nothing is left. Else at most
// kReportLinesMax lines, each with its line break.
[[nodiscard]] std::string render_report(const JobResult& result, const ReportSite& site);

// The Python traceback of a failure: from its error file, else the last one on its stderr; empty
// where there is none.
[[nodiscard]] std::string traceback_of(const WorkerFailure& failure);

// Failures that are neither the root cause nor workers that we stopped.
[[nodiscard]] std::vector<const WorkerFailure*> other_failures(const JobResult& result);

// The signal's name and its sender, for a job that was interrupted.
[[nodiscard]] std::string describe_interruption(const JobResult& result);

}  // namespace muster
