// SPDX-License-Identifier: Apache-2.0
// status, events, timeline: query a running job, or read the files of a job that may have ended.
#include "base/clock.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "run_folder.hpp"
#include "status/job_socket.hpp"
#include "status/json.hpp"
#include "status/status_json.hpp"
#include "status/status_text.hpp"
#include "status/timeline.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace muster {
namespace {

int show_status(const ControlOptions& options, const std::string& json) {
  print(options.json ? json : status_text(json));
  return 0;
}

// If the launcher was killed, the files do not show the end of the job.
Result<int> status_of_folder(const ControlOptions& options) {
  const auto status = read_status(options.name);
  MUSTER_RETURN_IF_ERROR(status);
  if (status->phase != JobPhase::ended && !options.json) {
    print("as of " + describe_wall_time(status->changed) + ", the last event:\n");
  }
  return show_status(options, status_json(*status, status->changed));
}

// Lists the jobs if there are several, so that the user can select one.
Result<int> status_of_machine(const ControlOptions& options) {
  ChosenJobs jobs = chosen_jobs(options);
  if (jobs.answered.empty() && !jobs.silent.empty()) {
    return std::unexpected(silent_error(jobs.silent, options));
  }
  warn_of_silent(std::exchange(jobs.silent, {}), options);
  if (jobs.answered.size() < 2) {
    const auto job = choose_job(std::move(jobs), options);
    return job ? Result<int>(show_status(options, job->status)) : std::unexpected(job.error());
  }
  for (const FoundJob& job : jobs.answered) {
    print(options.json ? job.status : describe(job) + "\n");
  }
  return 0;
}

void show_event(const ControlOptions& options, std::string_view line) {
  print(options.json ? std::string(line) : event_text(line.substr(0, line.find('\n'))) + "\n");
}

// Also returns when the process that reads stdout exits.
Result<void> pass_events(const ControlOptions& options, HttpStream& stream) {
  EventLines lines;
  while (std::ferror(stdout) == 0) {
    const auto part =
        stream.read_some(options.follow ? TimePoint::max() : steady_now() + options.timeout);
    MUSTER_RETURN_IF_ERROR(part);
    if (part->empty()) {
      return {};
    }
    const auto events = lines.feed(*part);
    MUSTER_RETURN_IF_ERROR(events);
    for (std::size_t at = 0; at < events->size();) {
      const auto end = events->find('\n', at) + 1;
      show_event(options, std::string_view(*events).substr(at, end - at));
      at = end;
    }
    static_cast<void>(std::fflush(stdout));
  }
  return {};
}

Result<int> events_of_folder(const ControlOptions& options) {
  if (options.follow) {
    return failure(Errc::usage, "--follow needs a running job; omit the directory");
  }
  const auto path = find_in_runs(options.name, "events.jsonl");
  MUSTER_RETURN_IF_ERROR(path);
  const auto done = read_lines(*path, [&](std::string_view line) { show_event(options, line); });
  return done ? Result<int>(0) : std::unexpected(done.error());
}

Result<std::string> timeline_of(const ControlOptions& options) {
  if (!options.name.empty()) {
    const auto status = read_status(options.name);
    return status ? Result<std::string>(timeline_svg(*status, status->changed))
                  : std::unexpected(status.error());
  }
  const auto source = find_source(options);
  return source ? source->get("/v1/timeline.svg", options.timeout)
                : std::unexpected(source.error());
}

}  // namespace

Result<int> run_status(const ControlOptions& options) {
  if (!options.name.empty()) {
    return status_of_folder(options);
  }
  if (!options.endpoint) {
    return status_of_machine(options);
  }
  const auto source = find_source(options);
  const auto json =
      source ? source->get("/v1/status", options.timeout) : std::unexpected(source.error());
  return json ? Result<int>(show_status(options, *json)) : std::unexpected(json.error());
}

Result<int> run_url(const ControlOptions& options) {
  const auto source = find_source(options);
  const auto url = source ? source->get(std::string(kJobUrlPath), options.timeout)
                          : std::unexpected(source.error());
  MUSTER_RETURN_IF_ERROR(url);
  if (url->empty()) {
    return failure(Errc::not_found, "the job has no HTTP server; start it with muster --http=PORT");
  }
  print(*url);
  return 0;
}

Result<int> run_events(const ControlOptions& options) {
  if (!options.name.empty()) {
    return events_of_folder(options);
  }
  const auto source = find_source(options);
  MUSTER_RETURN_IF_ERROR(source);
  auto stream = source->ask(options.follow ? "/v1/events" : "/v1/events?follow=0",
                            steady_now() + options.timeout);
  MUSTER_RETURN_IF_ERROR(stream);
  const auto done = pass_events(options, *stream);
  return done ? Result<int>(0) : std::unexpected(done.error());
}

Result<int> run_timeline(const ControlOptions& options) {
  const auto svg = timeline_of(options);
  MUSTER_RETURN_IF_ERROR(svg);
  if (options.svg == "-") {
    print(*svg);
    return 0;
  }
  std::ofstream file(options.svg, std::ios::binary);
  file << *svg << std::flush;
  if (!file) {
    return failure(Errc::not_possible, "cannot write '" + options.svg + "'");
  }
  return 0;
}

}  // namespace muster
