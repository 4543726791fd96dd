// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include "choose_job.hpp"
#include "io/resolver.hpp"
#include "run_folder.hpp"
#include "status/json.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace muster {
namespace {

constexpr const char* kReportName = "report.json";

// Returns an error that names the log directory in which a running job will write its report.
Result<std::string> logs_of_job(const ControlOptions& options) {
  const auto source = find_source(options);
  if (!source && source.error().code == Errc::not_found) {
    return failure(Errc::not_found,
                   source.error().message + "; for a finished job use musterctl report DIR");
  }
  const auto json =
      source ? source->get("/v1/status", options.timeout) : std::unexpected(source.error());
  if (!json) {
    return json;
  }
  const std::string logs = text_of(parse_json(*json), "logs");
  return failure(Errc::not_found,
                 logs.empty() ? "the job is still running and has no log directory (--log-dir)"
                              : "the job is still running; its report will be in '" + logs + "'");
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
  const auto path =
      options.name.empty() ? logs_of_job(options) : find_in_runs(options.name, kReportName);
  MUSTER_RETURN_IF_ERROR(path);
  std::ifstream file(*path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) {
    return failure(Errc::not_possible, "cannot read '" + *path + "'");
  }
  print(text);
  if (!text.ends_with('\n')) {
    print("\n");
  }
  return 0;
}

}  // namespace muster
