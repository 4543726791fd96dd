// SPDX-License-Identifier: Apache-2.0
#include "local_job.hpp"

#include "base/printable.hpp"
#include "choose_job.hpp"
#include "process/tree/descendants.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace muster {
namespace {

constexpr int kGenerationsMax = 64;

// The status is untrusted, so a process counts only if it descends from the agent process, whose
// pid the kernel reported.
bool is_below(pid_t process, pid_t agent) {
  for (int i = 0; i < kGenerationsMax && process > 1; ++i) {
    const auto row = read_process(process);
    if (!row) {
      return false;
    }
    if (row->parent == agent) {
      return true;
    }
    process = row->parent;
  }
  return false;
}

std::vector<LocalWorker> workers_in(const Json& status, pid_t agent) {
  std::vector<LocalWorker> out;
  for (const Json& row : field(status, "workers")) {
    const LocalWorker worker{static_cast<int>(number_of(row, "rank")),
                             static_cast<int>(number_of(row, "local_rank")),
                             static_cast<pid_t>(number_of(row, "pid"))};
    if (text_of(row, "state") == "running" && is_below(worker.pid, agent)) {
      out.push_back(worker);
    }
  }
  std::ranges::sort(out, {}, &LocalWorker::rank);
  return out;
}

}  // namespace

Result<LocalJob> find_local_job(const ControlOptions& options) {
  auto job = find_job(options);
  MUSTER_RETURN_IF_ERROR(job);
  const Json status = parse_json(job->status);
  LocalJob out{std::move(*job), static_cast<int>(number_of(status, "world_size")), {}};
  out.workers = workers_in(status, out.job.agent_pid);
  if (out.workers.empty()) {
    return failure(Errc::not_found, describe(out.job) + ": no worker is currently running here");
  }
  return out;
}

Result<void> keep_ranks(LocalJob& job, const std::vector<int>& ranks) {
  const auto here = [&](int rank) {
    return std::ranges::find(job.workers, rank, &LocalWorker::rank) != job.workers.end();
  };
  const auto missing = std::ranges::find_if_not(ranks, here);
  if (missing != ranks.end()) {
    return failure(Errc::not_found,
                   fmt::format("rank {} does not run on this host; local ranks: {}",
                               *missing,
                               name_some(job.workers, [](const LocalWorker& worker) {
                                 return std::to_string(worker.rank);
                               })));
  }
  std::erase_if(job.workers, [&](const LocalWorker& worker) {
    return !ranks.empty() && std::ranges::find(ranks, worker.rank) == ranks.end();
  });
  return {};
}

}  // namespace muster
