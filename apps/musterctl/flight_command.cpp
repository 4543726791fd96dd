// SPDX-License-Identifier: Apache-2.0
// musterctl flight: where the ranks are, from the flight recorders of the collective library; also
// of ranks that were killed, while their launcher or another rank of their host lives.
#include "base/text.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace muster {
namespace {

namespace fs = std::filesystem;
using collective::FlightLog;

constexpr std::string_view kMemoryName = "/memfd:flight-";

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    out.push_back(at->path());
  }
  std::ranges::sort(out);
  return out;
}

// The fourth field of /proc/PID/stat; the name before it may hold anything.
std::string parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  const auto behind = text.rfind(')');
  const auto fields =
      behind == std::string::npos ? std::vector<std::string>() : split(text.substr(behind), ' ');
  return fields.size() > 2 ? fields[2] : "";
}

// The process and all below it.
std::set<std::string> family(const std::string& pid) {
  std::multimap<std::string, std::string> children;
  for (const fs::path& process : entries("/proc")) {
    if (parse_int(process.filename().string())) {
      children.emplace(parent_of(process), process.filename().string());
    }
  }
  std::set<std::string> out;
  std::vector<std::string> todo{pid};
  while (!todo.empty()) {
    const std::string one = todo.back();
    todo.pop_back();
    if (out.insert(one).second) {
      for (auto [at, end] = children.equal_range(one); at != end; ++at) {
        todo.push_back(at->second);
      }
    }
  }
  return out;
}

using FileId = std::pair<dev_t, ino_t>;

// Ranks of a host and their launcher hold the same memory.
FileId file_of(const fs::path& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 ? FileId(facts.st_dev, facts.st_ino) : FileId();
}

std::vector<fs::path> recorders_of(const std::string& place) {
  std::vector<fs::path> out;
  if (!parse_int(place)) {
    for (const fs::path& file : entries(place)) {
      if (file.extension() == ".ring") {
        out.push_back(file);
      }
    }
    return out;
  }
  for (const std::string& pid : family(place)) {
    for (const fs::path& fd : entries("/proc/" + pid + "/fd")) {
      std::error_code error;
      const std::string target = fs::read_symlink(fd, error).string();
      if (!error && (target.starts_with(kMemoryName) || target.ends_with(".ring"))) {
        out.push_back(fd);
      }
    }
  }
  return out;
}

}  // namespace

Result<int> run_flight(const ControlOptions& options) {
  std::map<std::pair<std::string, std::uint64_t>, std::vector<FlightLog>> communicators;
  std::set<FileId> seen;
  for (const std::string& place : options.args) {
    for (const fs::path& path : recorders_of(place)) {
      if (!seen.insert(file_of(path)).second) {
        continue;
      }
      auto logs = collective::read_flight_recorders(path.string());
      for (std::size_t i = 0; logs && i < logs->size(); ++i) {
        FlightLog& log = (*logs)[i];
        communicators[{log.name, log.epoch}].push_back(std::move(log));
      }
    }
  }
  if (communicators.empty()) {
    return failure(Errc::not_found,
                   "no flight recorder found: give a folder (MUSTER_COLLECTIVE_FLIGHT_DIR) or the "
                   "pid of a rank or its launcher, as its user");
  }
  for (const auto& [key, logs] : communicators) {
    print(fmt::format("communicator '{}', epoch {}: {} of {} ranks seen\n",
                      key.first,
                      key.second,
                      logs.size(),
                      logs[0].size));
    print(collective::describe_flight_recorders(logs));
  }
  return 0;
}

}  // namespace muster
