// SPDX-License-Identifier: Apache-2.0
#include "run_folder.hpp"

#include "status/fold.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> newest_of(const fs::path& folder, const char* name) {
  std::error_code error;
  if (fs::is_regular_file(folder / name, error)) {
    return folder / name;
  }
  std::optional<fs::path> newest;
  fs::file_time_type newest_time{};
  for (fs::directory_iterator run(folder, error), end; !error && run != end; run.increment(error)) {
    std::error_code missing;
    const auto candidate = run->path() / name;
    const auto written = fs::last_write_time(candidate, missing);
    if (!missing && (!newest || written > newest_time)) {
      newest = candidate;
      newest_time = written;
    }
  }
  return newest;
}

}  // namespace

Result<std::string> find_in_runs(const std::string& folder, const char* name) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return failure(Errc::not_found, "cannot open '" + folder + "': not a directory");
  }
  const auto path = newest_of(folder, name);
  if (!path) {
    return failure(Errc::not_found,
                   "no " + std::string(name) + " in '" + folder +
                       "' or its subdirectories: muster writes this file to its --log-dir");
  }
  return path->string();
}

std::vector<std::string> newest_runs(const std::string& folder, std::size_t count) {
  std::vector<std::pair<fs::file_time_type, std::string>> runs;
  std::error_code error;
  for (fs::directory_iterator run(folder, error), end; !error && run != end; run.increment(error)) {
    std::error_code missing;
    const auto written = fs::last_write_time(run->path() / "events.jsonl", missing);
    if (!missing) {
      runs.emplace_back(written, run->path().string());
    }
  }
  std::ranges::sort(runs, std::ranges::greater{});
  runs.resize(std::min(runs.size(), count));
  std::vector<std::string> out;
  for (auto& [written, path] : runs) {
    out.push_back(std::move(path));
  }
  return out;
}

Result<void> read_lines(const std::string& path,
                        const std::function<void(std::string_view)>& take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return failure(Errc::not_possible, "cannot read '" + path + "'");
  }
  for (std::string line; std::getline(file, line) && !file.eof();) {
    take(line + "\n");
  }
  return {};
}

Result<JobStatus> read_status(const std::string& folder) {
  const auto path = find_in_runs(folder, "events.jsonl");
  MUSTER_RETURN_IF_ERROR(path);
  JobStatus status;
  bool any = false;
  const auto done =
      read_lines(*path, [&](std::string_view line) { any = fold_event(status, line) || any; });
  MUSTER_RETURN_IF_ERROR(done);
  if (!any) {
    return failure(Errc::not_found, "no events in '" + *path + "'");
  }
  return status;
}

}  // namespace muster
