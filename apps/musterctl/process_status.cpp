// SPDX-License-Identifier: Apache-2.0
#include "process_status.hpp"

#include "base/text.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace muster {

std::optional<ProcessStatus> read_process_status(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  ProcessStatus out;
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    found += std::sscanf(line.c_str(), "PPid: %d", &out.parent) == 1 ? 1 : 0;
    found += std::sscanf(line.c_str(), "Uid: %*u %u", &out.user) == 1 ? 1 : 0;
  }
  return found == 2 ? std::optional(out) : std::nullopt;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> out;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    if (const auto pid = parse_int(at->path().filename().string())) {
      out.push_back(static_cast<pid_t>(*pid));
    }
  }
  return out;
}

}  // namespace muster
