// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include "base/printable.hpp"
#include "choose_job.hpp"
#include "io/resolver.hpp"
#include "run_folder.hpp"
#include "status/job_report.hpp"
#include "status/json.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr int kReportIndent = 2;

constexpr const char* kReportName = "report.json";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The report of a run: the one on its failure, if there is one, else only how it ended.
Json report_of(const fs::path& run, const JobStatus& status) {
  if (Json json = parse_json(read_file(run / kReportName)); json.is_object()) {
    return json;
  }
  Json json;
  json["outcome"] = status.outcome;
  json["exit_code"] = status.exit_code;
  json["program"] = status.program;
  json["node"] = status.node;
  json["verdict"] = status.verdict;
  json["check"] = parse_json(status.check);
  return json;
}

// Runs that cannot be read do not count.
std::vector<JobRun> runs_beside(const std::string& events_path) {
  std::vector<JobRun> out;
  const fs::path own = fs::path(events_path).parent_path();
  for (const std::string& run : newest_runs(own.parent_path(), kRunsReportedMax)) {
    if (fs::path(run) == own) {
      continue;
    }
    if (const auto status = read_status(run)) {
      out.push_back(run_of(*status));
    }
  }
  return out;
}

// A run without events has no account of its time.
Result<Json> report_without_events(const std::string& folder, const Error& why) {
  const auto path = find_in_runs(folder, kReportName);
  if (!path) {
    return std::unexpected(why);
  }
  Json json = parse_json(read_file(*path));
  return json.is_object() ? Result<Json>(std::move(json))
                          : failure(Errc::not_possible, "cannot read '" + *path + "'");
}

// A directory with several runs: the newest run and the earlier runs that it continues.
Result<Json> report_of_folder(const std::string& folder) {
  const auto events = find_in_runs(folder, "events.jsonl");
  if (!events) {
    return report_without_events(folder, events.error());
  }
  const fs::path run = fs::path(*events).parent_path();
  const auto status = read_status(run.string());
  MUSTER_RETURN_IF_ERROR(status);
  Json report = report_of(run, *status);
  std::error_code error;
  const bool is_one_run = fs::equivalent(run, folder, error);
  add_runs(report,
           runs_of_job(is_one_run ? std::vector<JobRun>() : runs_beside(*events), run_of(*status)));
  return report;
}

Result<Json> report_of_running_job(const ControlOptions& options) {
  const auto source = find_source(options);
  if (!source && source.error().code == Errc::not_found) {
    return failure(Errc::not_found,
                   source.error().message + "; for a finished job use musterctl report DIR");
  }
  const auto text =
      source ? source->get("/v1/status", options.timeout) : std::unexpected(source.error());
  MUSTER_RETURN_IF_ERROR(text);
  const Json status = parse_json(*text);
  Json report;
  for (const char* name : {"phase",
                           "outcome",
                           "exit_code",
                           "program",
                           "node",
                           "job",
                           "verdict",
                           "logs",
                           "check",
                           "account"}) {
    report[name] = field(status, name);
  }
  return report;
}

}  // namespace

void print(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

Result<int> run_resolve(const ControlOptions& options) {
  const auto addresses = resolve_blocking(options.name, options.timeout);
  MUSTER_RETURN_IF_ERROR(addresses);
  for (const auto& address : *addresses) {
    print(address + "\n");
  }
  return 0;
}

Result<int> run_report(const ControlOptions& options) {
  const auto report =
      options.name.empty() ? report_of_running_job(options) : report_of_folder(options.name);
  MUSTER_RETURN_IF_ERROR(report);
  print(options.json ? without_hidden_marks(dump_json(*report, kReportIndent)) + "\n"
                     : report_text(*report));
  return 0;
}

}  // namespace muster
