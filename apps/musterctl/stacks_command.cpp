// SPDX-License-Identifier: Apache-2.0
// stacks: prints the current stacks of a job's workers. Groups equal stacks, outliers first.
#include "base/printable.hpp"
#include "commands.hpp"
#include "hang/judge/judge.hpp"
#include "hang/report/verdict_text.hpp"
#include "inspect.hpp"
#include "local_job.hpp"

#include <string>
#include <vector>

namespace muster {
namespace {

constexpr std::size_t kIndent = 2;  // indentation of the groups in a verdict

// The job may not be hung, so it is normal for a thread to be running.
std::string without_blame(const std::string& reason) {
  constexpr std::string_view kSpinning = "spinning in ";
  return reason.starts_with(kSpinning) ? "runs in " + reason.substr(kSpinning.size()) : reason;
}

void show(const std::vector<hang::Group>& groups, const std::vector<std::string>& gaps) {
  for (const hang::Group& group : groups) {
    for (const std::string& line : hang::lines_of_group(group, group.stack.size())) {
      if (line.find_first_not_of(' ') != std::string::npos) {  // a function without a name
        print(printable(line.substr(kIndent), kStackLineBytesMax) + "\n");
      }
    }
  }
  for (const std::string& gap : gaps) {
    print(printable(gap, kStackLineBytesMax) + "\n");
  }
}

}  // namespace

Result<int> run_stacks(const ControlOptions& options) {
  auto job = find_local_job(options);
  MUSTER_RETURN_IF_ERROR(job);
  MUSTER_RETURN_IF_ERROR(keep_ranks(*job, options.ranks));
  const hang::Evidence evidence = inspect(*job);
  auto groups = hang::judge(evidence).groups;
  if (options.json) {
    print(hang::stacks_json(groups, evidence));
    return 0;
  }
  for (hang::Group& group : groups) {
    group.reason = without_blame(group.reason);
  }
  show(groups, evidence.gaps);
  return 0;
}

}  // namespace muster
