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

// The status is untrusted, so a process counts only if it descends from the agent process, whose
// pid the kernel reported.
bool is_below(pid_t process, pid_t agent) {
  const auto found = nearest_ancestor(process, [agent](pid_t at) { return at == agent; });
  return found && found->distance > 0;
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

// Names the host of a rank that runs elsewhere.
Error elsewhere(const FoundJob& job, const ControlOptions& options, const Error& why) {
  const Json status = parse_json(job.status);
  const auto runs_on = [&](const Json& node, int rank) {
    const auto first = number_of(node, "rank_first");
    return rank >= first && rank < first + number_of(node, "workers") && !flag_of(node, "here");
  };
  for (const Json& node : field(status, "nodes")) {
    for (const int rank : options.ranks) {
      if (runs_on(node, rank)) {
        return {Errc::not_found,
                fmt::format("rank {} runs on {}. Run there: musterctl {} {} --run-id {}",
                            rank,
                            printable(text_of(node, "name")),
                            options.command == Command::debug ? "debug" : "profile",
                            rank,
                            printable(text_of(status, "job")))};
      }
    }
  }
  return why;
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

Result<LocalJob> find_ranks(const ControlOptions& options) {
  auto job = find_local_job(options);
  MUSTER_RETURN_IF_ERROR(job);
  if (const auto kept = keep_ranks(*job, options.ranks); !kept) {
    return std::unexpected(elsewhere(job->job, options, kept.error()));
  }
  return job;
}

}  // namespace muster
