// SPDX-License-Identifier: Apache-2.0
// Selects the debugger for a rank from facts about its process. Pure.
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

struct DebuggedProcess {
  int rank = 0;
  pid_t pid = 0;
  std::string exe{};                // the path of its program
  std::vector<std::string> argv{};  // its command line
  bool runs_exe = false;            // this user may run that program
  bool has_remote_exec = false;     // it is Python 3.14 or later; false if it may not be run
  bool uses_cuda = false;
};

[[nodiscard]] bool is_python(const std::string& exe);

// The address on which debugpy listens in the process; empty without debugpy.
[[nodiscard]] std::string debugpy_address(const std::vector<std::string>& argv);

// The command line of pdb. Errors: not_possible, if the process is not a Python that pdb can attach
// to; the message names the alternatives.
[[nodiscard]] Result<std::vector<std::string>> pdb_command(const DebuggedProcess& process);

// The command lines of native debuggers, the best one first.
[[nodiscard]] std::vector<std::vector<std::string>> native_commands(const DebuggedProcess& process);

// How an IDE attaches to debugpy at this address.
[[nodiscard]] std::string attach_text(const DebuggedProcess& process, const std::string& host);

}  // namespace muster
