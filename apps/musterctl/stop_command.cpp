// SPDX-License-Identifier: Apache-2.0
// stop: sends SIGTERM to a job's launcher, like kill(1), and waits for it to exit. drain: does the
// same for one node of a multi-node job; that node then leaves the job.
#include "base/printable.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "launcher.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <set>
#include <string>
#include <vector>

namespace muster {
namespace {

// Node names as reported by one launcher. Several nodes on one host have different names.
struct NodeNames {
  std::set<std::string> own;
  std::set<std::string> others;
};

NodeNames nodes_of(const FoundJob& job) {
  const Json status = parse_json(job.status);
  NodeNames out;
  for (const Json& node : field(status, "nodes")) {
    (flag_of(node, "here") ? out.own : out.others).insert(text_of(node, "name"));
  }
  if (out.own.empty()) {  // not part of a round
    out.own.insert(text_of(status, "node"));
  }
  return out;
}

// The local launcher of this node.
Result<FoundJob> launcher_of_node(const std::string& node, const std::vector<FoundJob>& jobs) {
  std::vector<FoundJob> here;
  std::set<std::string> elsewhere;
  std::set<std::string> known;
  for (const FoundJob& job : jobs) {
    const NodeNames names = nodes_of(job);
    if (names.own.contains(node)) {
      here.push_back(job);
    }
    elsewhere.insert(names.others.begin(), names.others.end());
    known.insert(names.own.begin(), names.own.end());
    known.insert(names.others.begin(), names.others.end());
  }
  if (here.size() == 1) {
    return here.front();
  }
  const std::string name = printable(node);
  if (here.size() > 1) {
    return failure(Errc::usage,
                   fmt::format("{} of your jobs are running on {}; select one with --pid: {}",
                               here.size(),
                               name,
                               name_some(here, [](const FoundJob& job) { return describe(job); })));
  }
  if (elsewhere.contains(node)) {
    return failure(Errc::not_possible,
                   fmt::format("{} is on another host. Run musterctl drain {} there as the job's "
                               "user",
                               name,
                               name));
  }
  return failure(
      Errc::not_found,
      fmt::format("your jobs on this host have no node '{}'; their nodes: {}",
                  name,
                  name_some(known, [](const std::string& one) { return printable(one); })));
}

}  // namespace

Result<int> run_stop(const ControlOptions& options) {
  // Also works for a silent launcher, because its guard process handles the signal.
  const auto job = choose_job(chosen_jobs(options), options);
  MUSTER_RETURN_IF_ERROR(job);
  MUSTER_RETURN_IF_ERROR(end_launcher(*job, options));
  print(fmt::format("pid {}: stopped\n", job->launcher_pid));
  return 0;
}

Result<int> run_drain(const ControlOptions& options) {
  const ChosenJobs jobs = chosen_jobs(options);
  if (jobs.answered.empty() && jobs.silent.empty()) {
    return std::unexpected(choose_job({}, options).error());
  }
  const auto job = launcher_of_node(options.node, jobs.answered);
  if (!job && job.error().code == Errc::not_found && !jobs.silent.empty()) {
    return std::unexpected(silent_error(jobs.silent, options));
  }
  if (!job) {
    warn_of_silent(jobs.silent, options);
    return std::unexpected(job.error());
  }
  if (nodes_of(*job).others.empty()) {
    return failure(
        Errc::not_possible,
        fmt::format("{} has no other node, so draining would stop the job. Use musterctl "
                    "stop for that",
                    describe(*job)));
  }
  MUSTER_RETURN_IF_ERROR(end_launcher(*job, options));
  print(fmt::format("{}: drained; its launcher (pid {}) has left the job\n",
                    printable(options.node),
                    job->launcher_pid));
  return 0;
}

}  // namespace muster
