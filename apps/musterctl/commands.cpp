// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include "io/resolver.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

namespace muster {
namespace {

constexpr const char* kReportName = "report.json";

// The report of the folder itself, else the newest of the runs directly below it.
std::optional<std::filesystem::path> find_report(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_regular_file(folder / kReportName, error)) {
    return folder / kReportName;
  }
  std::optional<std::filesystem::path> newest;
  std::filesystem::file_time_type newest_time{};
  for (std::filesystem::directory_iterator run(folder, error), end; !error && run != end;
       run.increment(error)) {
    std::error_code missing;
    const auto candidate = run->path() / kReportName;
    const auto written = std::filesystem::last_write_time(candidate, missing);
    if (!missing && (!newest || written > newest_time)) {
      newest = candidate;
      newest_time = written;
    }
  }
  return newest;
}

}  // namespace

void print(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

Result<int> run_resolve(const ControlOptions& options) {
  const auto addresses = resolve_blocking(options.name, options.timeout);
  if (!addresses) {
    return std::unexpected(addresses.error());
  }
  for (const auto& address : *addresses) {
    print(address + "\n");
  }
  return 0;
}

Result<int> run_report(const ControlOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.name, error)) {
    return failure(Errc::not_found, "cannot open '" + options.name + "': not a folder");
  }
  const auto path = find_report(options.name);
  if (!path) {
    return failure(Errc::not_found,
                   "no " + std::string(kReportName) + " in '" + options.name +
                       "' or the folders in it; a job that succeeds writes none");
  }
  std::ifstream file(*path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) {
    return failure(Errc::not_possible, "cannot read '" + path->string() + "'");
  }
  print(text);
  if (!text.ends_with('\n')) {
    print("\n");
  }
  return 0;
}

}  // namespace muster
