// SPDX-License-Identifier: Apache-2.0
#include "rank_process.hpp"

#include "debugger.hpp"
#include "process/tree/descendants.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

namespace muster {

std::string program_of(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error).string();
}

pid_t program_process(pid_t worker) {
  if (is_python(program_of(worker))) {
    return worker;
  }
  for (const ProcessRow& row : descendants(worker)) {
    if (is_python(program_of(row.pid))) {
      return row.pid;
    }
  }
  return worker;
}

}  // namespace muster
