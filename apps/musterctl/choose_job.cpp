// SPDX-License-Identifier: Apache-2.0
#include "choose_job.hpp"

#include "base/logger.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "commands.hpp"
#include "http/access.hpp"
#include "io/own_address.hpp"
#include "io/resolver.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

namespace muster {
namespace {

std::string pid_text(const FoundJob& job) {
  return job.launcher_pid > 0 ? std::to_string(job.launcher_pid)
                              : "unknown (in another pid namespace)";
}

bool fits(const FoundJob& job, const ControlOptions& options) {
  const bool pid_fits =
      !options.pid || job.launcher_pid == *options.pid || job.agent_pid == *options.pid;
  const bool id_fits = options.run_id.empty() || job.is_silent() ||
                       text_of(parse_json(job.status), "job") == options.run_id;
  return pid_fits && id_fits;
}

// True if the job's --http server listens on one of these addresses.
bool serves(const FoundJob& job, const std::vector<std::string>& addresses, int port) {
  const auto http = parse_endpoint(text_of(parse_json(job.status), "http"));
  if (!http || http->port != port) {
    return false;
  }
  const bool on_all = http->host == "0.0.0.0" || http->host == "::";
  return std::ranges::any_of(addresses, [&](const std::string& address) {
    return address == http->host || (on_all && is_own_address(address));
  });
}

// Removes trailing line breaks. Error: not_possible; the message never contains the key.
Result<std::string> read_key(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string key;
  if (!std::getline(file, key) || key.empty() || !is_url_safe(key)) {
    return failure(Errc::not_possible, "--http-key: cannot read a key from '" + path + "'");
  }
  return key;
}

// Queries a job of this user on this host over its Unix socket, which needs no key.
Result<JobSource> source_at(const Endpoint& endpoint, const ControlOptions& options) {
  JobSource out;
  out.endpoint = endpoint;
  if (!options.http_key_file.empty()) {
    auto key = read_key(options.http_key_file);
    MUSTER_RETURN_IF_ERROR(key);
    out.key = std::move(*key);
    return out;
  }
  const auto addresses = resolve_blocking(endpoint.host, options.timeout);
  MUSTER_RETURN_IF_ERROR(addresses);
  for (FoundJob& job : find_jobs(options.time_to_find())) {
    if (serves(job, *addresses, *endpoint.port)) {
      return std::move(job.source);
    }
  }
  return out;
}

}  // namespace

std::string describe(const FoundJob& job) {
  if (job.is_silent()) {
    return fmt::format("pid {}  does not respond", pid_text(job));
  }
  const Json status = parse_json(job.status);
  return fmt::format("pid {}  {}, job {}, {}",
                     job.launcher_pid,
                     printable(text_of(status, "program")),
                     printable(text_of(status, "job")),
                     printable(text_of(status, "phase")));
}

Error silent_error(const std::vector<FoundJob>& silent, const ControlOptions& options) {
  return Error{
      Errc::unreachable,
      fmt::format("no answer within {:.4g} s from the {} with pid {}: it may be stopped, or "
                  "the host may be overloaded. musterctl stop --pid PID stops its job",
                  std::chrono::duration<double>(options.time_to_find()).count(),
                  agreeing(silent.size(), "launcher", "launchers"),
                  name_some(silent, pid_text))};
}

void warn_of_silent(const std::vector<FoundJob>& silent, const ControlOptions& options) {
  if (!silent.empty()) {
    log_warning(silent_error(silent, options).message);
  }
}

ChosenJobs chosen_jobs(const ControlOptions& options) {
  ChosenJobs out;
  for (FoundJob& job : find_jobs(options.time_to_find())) {
    if (fits(job, options)) {
      (job.is_silent() ? out.silent : out.answered).push_back(std::move(job));
    }
  }
  return out;
}

Result<FoundJob> choose_job(ChosenJobs jobs, const ControlOptions& options) {
  std::vector<FoundJob> candidates = std::move(jobs.answered);
  if (options.run_id.empty()) {
    std::ranges::move(jobs.silent, std::back_inserter(candidates));
  } else if (candidates.empty() && !jobs.silent.empty()) {
    return std::unexpected(silent_error(jobs.silent, options));
  } else {
    warn_of_silent(jobs.silent, options);
  }
  if (candidates.empty()) {
    const bool any = !options.pid && options.run_id.empty();
    return failure(Errc::not_found,
                   any ? "you have no running job on this host"
                       : "you have no such job on this host; see musterctl status");
  }
  if (candidates.size() > 1) {
    return failure(
        Errc::usage,
        fmt::format("{} jobs are running here; select one with --pid: {}",
                    candidates.size(),
                    name_some(candidates, [](const FoundJob& job) { return describe(job); })));
  }
  return std::move(candidates.front());
}

Result<FoundJob> find_job(const ControlOptions& options) {
  auto job = choose_job(chosen_jobs(options), options);
  if (job && job->is_silent()) {
    return std::unexpected(silent_error({*job}, options));
  }
  return job;
}

Result<JobSource> find_source(const ControlOptions& options) {
  if (options.endpoint) {
    return source_at(*options.endpoint, options);
  }
  auto job = find_job(options);
  return job ? Result<JobSource>(std::move(job->source)) : std::unexpected(job.error());
}

}  // namespace muster
