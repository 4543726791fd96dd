// SPDX-License-Identifier: Apache-2.0
#include "recorder_files.hpp"

#include "base/text.hpp"
#include "process/tree/descendants.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

namespace muster {
namespace {

namespace fs = std::filesystem;

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

// The process and all its descendants.
std::set<pid_t> family(pid_t root) {
  std::set<pid_t> out{root};
  for (const ProcessRow& row : descendants(root)) {
    out.insert(row.pid);
  }
  return out;
}

using FileId = std::pair<dev_t, ino_t>;

// Identifies a recorder. Ranks on a host and their launcher share the same memory.
FileId file_of(const fs::path& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 ? FileId(facts.st_dev, facts.st_ino) : FileId();
}

std::vector<fs::path> recorders_of(const std::string& place) {
  std::vector<fs::path> out;
  const auto root = parse_int(place);
  if (!root) {
    for (const fs::path& file : entries(place)) {
      if (file.extension() == ".ring") {
        out.push_back(file);
      }
    }
    return out;
  }
  for (const pid_t pid : family(static_cast<pid_t>(*root))) {
    for (const fs::path& fd : entries("/proc/" + std::to_string(pid) + "/fd")) {
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

std::vector<collective::FlightLog> read_recorders(const std::vector<std::string>& places) {
  std::vector<collective::FlightLog> out;
  std::set<FileId> seen;
  for (const std::string& place : places) {
    for (const fs::path& path : recorders_of(place)) {
      if (!seen.insert(file_of(path)).second) {
        continue;
      }
      if (auto logs = collective::read_flight_recorders(path.string())) {
        std::ranges::move(*logs, std::back_inserter(out));
      }
    }
  }
  return out;
}

}  // namespace muster
